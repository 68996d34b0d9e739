"""Whether a state is one that a method can go on from, asked before anything is loaded.

A file's checksum says that it is whole, not who made it. A state whose parts do not fit together
would break a method batches later, or, as moments of the wrong shape do in a fused optimiser, write
where nobody looks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rotta.guard import Guard
from rotta.memory.bank import Bank
from rotta.memory.pbrs import PBRS

OTHER = "this is not the state of the same method with the same options"

_OF_THE_DEVICE = ("fused", "capturable")  # how an optimiser computes: not taken over
_COUNTS = ("samples_seen", "updates", "_learnt_from")


def check_attributes(held: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Refuse what the attributes of a method could not become.

    Args:
        held: By name, as the method has them.
        stored: By the same names, as :func:`~rotta.adapters.method_state.state_of` gave them.

    Raises:
        ValueError: Names what does not fit.
    """
    for name, own in held.items():
        if name != "built" and not _fits(name, own, stored[name]):
            raise ValueError(f"{OTHER}: its {name} cannot be gone on from")


def check_guard(stored: Mapping[str, Any], own: Mapping[str, Tensor], num_classes: int) -> None:
    """Refuse what a guard of this method could not remember.

    Args:
        stored: What it remembers, in itself as it should be.
        own: The method's tensors by name, without those that it shares with its network.
        num_classes: C.

    Raises:
        ValueError: Says what is wrong.
    """
    answers = stored["_answers"]
    if answers is not None and answers.shape != (2, num_classes):
        raise ValueError(f"{OTHER}: its guard saw another number of classes")
    for name, tensor in (stored["_snapshot"] or {}).items():
        alike = name in own and own[name].shape == tensor.shape
        if not alike or not tensor.is_floating_point():
            raise ValueError(f"{OTHER}: its guard remembers another {name}")


def check_bank(
    bank: Bank, stored: Mapping[str, Any], shape: tuple[int, ...] | None, num_classes: int
) -> None:
    """Refuse contents that no bank comes to have.

    Args:
        bank: Of the method.
        stored: Its buffers, by name.
        shape: Of the images that the method saw, (C, H, W), if it saw any.
        num_classes: How many classes there are.

    Raises:
        ValueError: Says what is wrong.
    """
    label, arrived, clock = stored["label"], stored["arrived"], stored["clock"]
    size = int((label >= 0).sum())
    if not ((label >= -1) & (label < num_classes)).all() or not (label[:size] >= 0).all():
        wrong = "classes"
    elif not (arrived >= 0).all() or clock < 0 or not (arrived[:size] <= clock).all():
        wrong = "times"
    elif size and stored["images"].shape[1:] != shape:
        wrong = "images"
    elif isinstance(bank, PBRS) and not _seen_fit(stored["seen"], label[:size]):
        wrong = "counts"
    else:
        return
    raise ValueError(f"{OTHER}: the {wrong} of its bank of {bank.capacity} do not fit")


def _seen_fit(seen: Tensor, label: Tensor) -> bool:
    return bool((seen >= torch.bincount(label, minlength=len(seen))).all())


def _fits(name: str, own: Any, stored: Any) -> bool:
    if isinstance(own, torch.optim.Optimizer):
        return _optimiser_fits(own, stored)
    if isinstance(own, torch.Generator):
        return _generator_fits(own, stored)
    if isinstance(own, Guard):
        return isinstance(stored, dict) and Guard.fits(stored)
    if name == "_input_shape":
        return stored is None or _is_shape(stored)
    if name == "skipped":
        return _is_alike(own, stored) and all(_is_count(count) for count in stored.values())
    return name not in _COUNTS or _is_count(stored)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(map(_is_count, value))


def _is_alike(own: Mapping[str, Any], stored: Any) -> bool:
    return isinstance(stored, Mapping) and set(stored) == set(own)


def _generator_fits(own: torch.Generator, stored: Any) -> bool:
    if not isinstance(stored, Tensor):
        return False
    try:
        torch.Generator(own.device).set_state(stored.cpu())
    except (RuntimeError, TypeError):
        return False
    return True


def _optimiser_fits(own: torch.optim.Optimizer, stored: Any) -> bool:
    mine = own.state_dict()
    if not _is_alike(mine, stored) or not isinstance(stored["param_groups"], list):
        return False
    groups, moments = stored["param_groups"], stored["state"]
    if len(groups) != len(mine["param_groups"]) or not isinstance(moments, Mapping):
        return False
    if not all(map(_group_fits, mine["param_groups"], groups)):
        return False
    parameters = [p for group in own.param_groups for p in group["params"]]
    return all(
        type(index) is int
        and 0 <= index < len(parameters)
        and _moments_fit(parameters[index], of_one, isinstance(own, torch.optim.Adam))
        for index, of_one in moments.items()
    )


def _group_fits(own: dict[str, Any], stored: Any) -> bool:
    """What only one of them has comes from another version of PyTorch, or from a scheduler."""
    if not isinstance(stored, Mapping) or stored.get("params") != own["params"]:
        return False
    common = (own.keys() & stored.keys()) - set(_OF_THE_DEVICE)
    return "lr" in common and all(_option_fits(own[name], stored[name]) for name in common)


def _option_fits(own: Any, stored: Any) -> bool:
    if own is None or isinstance(own, bool):
        return stored is own
    if isinstance(own, Tensor):
        return isinstance(stored, Tensor) and stored.shape == own.shape
    if isinstance(own, Sequence):
        is_row = isinstance(stored, Sequence) and len(stored) == len(own)
        return is_row and all(map(_option_fits, own, stored))
    return _is_number(stored) and stored >= 0


def _moments_fit(parameter: Tensor, moments: Any, of_adam: bool) -> bool:
    if not isinstance(moments, Mapping):
        return False
    if of_adam and not {"step", "exp_avg", "exp_avg_sq"} <= set(moments):
        return False
    return all(
        isinstance(value, Tensor)
        and value.is_floating_point()
        and (value.ndim == 0 if name == "step" else value.shape == parameter.shape)
        for name, value in moments.items()
    )
