"""Methods that predict on a stream and adapt while they do. They see images, never labels."""

from collections.abc import Callable

from torch import nn

from rotta.adapters.rotta import RoTTA
from rotta.adapters.source import Source

METHODS: dict[str, Callable[[nn.Module], nn.Module]] = {"source": Source}
"""By name: what `rotta run` can build around a network."""

__all__ = ["METHODS", "RoTTA", "Source"]
