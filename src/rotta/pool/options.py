"""Which of RoTTA's options a pool takes."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from rotta.adapters.common import defaults_of
from rotta.adapters.methods import lookup_options
from rotta.adapters.rotta import RoTTA

_FIXED = {
    "robust_norm": "statistics per stream are what it batches",
    "balanced_bank": "it knows no other bank",
    "robust_training": "it knows no other training",
    "graphs": "it decides by itself",
    "precision": "it computes in that of the network",
    "class_mix": "it answers every image for itself",
    "bad_input": "it refuses bad images, request by request",
}


@dataclass(frozen=True)
class Options:
    """RoTTA's constants, the same for all streams; see :class:`~rotta.RoTTA`."""

    capacity: int
    update_every: int
    alpha: float
    nu: float
    lambda_t: float
    lambda_u: float
    lr: float
    guard: bool
    reset_every: int | None
    seed: int

    @classmethod
    def checked(cls, net: nn.Module, num_classes: int, given: dict[str, Any]) -> "Options":
        """Those that were given and RoTTA's own for the others.

        Raises:
            ValueError: RoTTA would not take them, or one of them is not for a pool.

        Example:
            >>> import rotta
            >>> Options.checked(rotta.load_source("digits"), 10, {"nu": 0.01}).nu
            0.01
        """
        lookup_options("rotta", given)
        for name, value in given.items():
            if name in _FIXED and value != defaults_of(RoTTA)[name]:
                raise ValueError(f"a pool has no option {name}, since {_FIXED[name]}: leave it out")
        RoTTA(net, num_classes, **given)
        wanted = {**defaults_of(RoTTA), **given}
        return cls(**{name: wanted[name] for name in cls.__dataclass_fields__})

    def identity(self) -> dict[str, Any]:
        """What a stream's state depends on: all but the seed."""
        return {name: value for name, value in vars(self).items() if name != "seed"}
