"""The table of methods, and how to build one by name."""

from typing import Any

from torch import nn

from rotta.adapters.base import Adapter
from rotta.adapters.bn import BN
from rotta.adapters.common import defaults_of
from rotta.adapters.cotta import CoTTA
from rotta.adapters.lame import LAME
from rotta.adapters.lasting import LastingRoTTA
from rotta.adapters.note import NOTE
from rotta.adapters.pl import PL
from rotta.adapters.rotta import RoTTA
from rotta.adapters.source import Source
from rotta.adapters.tent import TENT
from rotta.registry import lookup

PAPER_METHODS: dict[str, type[Adapter]] = {
    "source": Source,
    "bn": BN,
    "pl": PL,
    "tent": TENT,
    "lame": LAME,
    "cotta": CoTTA,
    "note": NOTE,
    "rotta": RoTTA,
}
"""Those that the paper compares, by name, in the order of its tables."""

METHODS: dict[str, type[Adapter]] = {**PAPER_METHODS, "rotta-lasting": LastingRoTTA}
"""All, by name. Each is called with the network, the number of classes, and options by keyword."""


def adapt(
    net: nn.Module, method: str = "rotta", *, num_classes: int | None = None, **options: Any
) -> Adapter:
    """Wrap a classifier in a method that adapts it while it predicts.

    Args:
        net: Images (B, 3, H, W) to logits (B, num_classes); it is not changed.
        method: A name of :data:`METHODS`.
        num_classes: How many outputs the network has; taken from its last linear layer if left
            out.
        options: The method's own; see its class.

    Raises:
        ValueError: Unknown method or option, or the network cannot be used; the message says
            what to do.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 10))
        >>> model = adapt(net, method="tent", lr=1e-4)
        >>> model(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """
    kind: Any = lookup(METHODS, method, "method")
    lookup_options(method, options)
    if not isinstance(net, nn.Module):
        raise ValueError(
            f"the network must be an nn.Module, not {type(net).__name__}: build it first"
        )
    classes = num_classes if num_classes is not None else _outputs_of(net)
    adapter: Adapter = kind(net, classes, **options)
    return adapter


def lookup_options(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """The defaults of those options of a method that are named.

    Raises:
        ValueError: The method has no such option; near matches and all names are listed.
    """
    defaults = defaults_of(METHODS[method])
    return {name: lookup(defaults, name, f"option of {method}") for name in options}


def _outputs_of(net: nn.Module) -> int:
    linear = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError(
            "the network has no linear layer that would tell its number of classes: pass "
            "num_classes"
        )
    return linear[-1].out_features
