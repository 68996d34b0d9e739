"""The state of a method: taken apart into plain values, checked, copied, put back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rotta.adapters.state_check import OTHER, check_attributes, check_bank, check_guard
from rotta.guard import Guard

if TYPE_CHECKING:
    from rotta.adapters.base import Adapter

EXTRA = "_extra_state"
"""PyTorch's name in a state for what is neither parameter nor buffer: here, the method's own."""

_BANK = "bank."  # how its names in a state begin


def state_of(value: Any) -> Any:
    """What an attribute remembers, as values and tensors."""
    if isinstance(value, torch.optim.Optimizer):
        return value.state_dict()
    if isinstance(value, Guard):
        return value.state()
    return value.get_state() if isinstance(value, torch.Generator) else value


def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take over its numbers; how it computes depends on the device, and stays as it is."""
    before = [dict(group) for group in optimiser.param_groups]
    optimiser.load_state_dict(state)
    for group, own in zip(optimiser.param_groups, before, strict=True):
        group.update({name: value for name, value in own.items() if name not in group})
        group["fused"], group["capturable"] = own.get("fused"), False
    _lay_out_as_the_parameters(optimiser)


@torch.no_grad()
def _lay_out_as_the_parameters(optimiser: torch.optim.Optimizer) -> None:
    """A fused optimiser goes through memory, and takes for granted that all of it is laid out
    alike; a state may come from a network in another layout, or from a file, which knows one."""
    for parameter, moments in optimiser.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                moments[name] = torch.empty_like(parameter).copy_(value)


def moments_follow(optimiser: torch.optim.Optimizer) -> None:
    """Bring an optimiser's numbers to where its parameters are, and into their dtype."""
    for parameter, moments in optimiser.state.items():
        for name, value in moments.items():
            if isinstance(value, Tensor):
                alike = value.shape == parameter.shape
                moments[name] = value.to(parameter) if alike else value.to(parameter.device)


def check_state(method: "Adapter", own: dict[str, Any], given: Any, shared: set[int]) -> None:
    """Refuse what is not the state of such a method, before anything is loaded.

    Args:
        method: Which shall go on from it.
        own: The method's state.
        given: The other.
        shared: Where the weights lie that the method shares with its network.

    Raises:
        ValueError: Says what does not fit.
    """
    _check_tensors(own, given, shared)
    _check_contents(method, own, given, shared)


def _check_tensors(own: dict[str, Any], given: Any, shared: set[int]) -> None:
    if not isinstance(given, Mapping) or set(given) != set(own):
        raise ValueError(f"{OTHER}: build the method as it was built when the state was saved")
    for name, value in own.items():
        stored = given[name]
        if name == EXTRA:
            _check_extra(value, stored)
        elif not isinstance(value, Tensor):
            continue  # the network's, who knows what it is
        elif not isinstance(stored, Tensor) or _kind(stored) != _kind(value):
            raise ValueError(f"{OTHER}: {name} is of another kind")
        elif name == "bank.images":  # allocated by the first batch
            if stored.ndim not in (2, 4) or len(stored) != len(value):
                places = tuple(stored.shape)[:1]
                raise ValueError(f"{OTHER}: its bank has {places} places, not {len(value)}")
        elif stored.shape != value.shape:
            raise ValueError(f"{OTHER}: {name} has another shape")
        elif value.data_ptr() in shared and not _equal(value, stored):
            raise ValueError(
                f"this is the state of another network: {name} differs, which no method changes. "
                "Build the method on the network of that time"
            )


def _check_extra(own: dict[str, Any], stored: Any) -> None:
    if not isinstance(stored, Mapping) or set(stored) != set(own):
        raise ValueError(f"{OTHER}: it does not hold {', '.join(own)}")
    built, mine = stored["built"], own["built"]
    if built != mine:
        was = built if isinstance(built, Mapping) else {}
        differing = sorted(
            f"{name}={value!r}"
            for name, value in was.items()
            if name not in mine or mine[name] != value
        )
        raise ValueError(f"{OTHER}: it was saved with {', '.join(differing)}")


def _check_contents(
    method: "Adapter", own: dict[str, Any], given: Mapping[str, Any], shared: set[int]
) -> None:
    """What the method could not go on from, although names and shapes are right."""
    extra = given[EXTRA]
    check_attributes({n: getattr(method, n) for n in own[EXTRA] if hasattr(method, n)}, extra)
    if "_guard" in extra:
        learnt = {
            name: value
            for name, value in own.items()
            if isinstance(value, Tensor) and value.data_ptr() not in shared
        }
        check_guard(extra["_guard"], learnt, method.num_classes)
    if method.bank is not None:
        start = len(_BANK)
        stored = {name[start:]: of for name, of in given.items() if name.startswith(_BANK)}
        check_bank(method.bank, stored, extra["_input_shape"], method.num_classes)


def _kind(tensor: Tensor) -> tuple[bool, bool]:
    """Numbers of any precision can be taken over, but not as numbers of another sort."""
    return tensor.is_floating_point(), tensor.is_complex()


def copied(state: Any, keep: set[int]) -> Any:
    """A deep copy, except for tensors that share memory with the source: those never change."""
    if isinstance(state, Tensor):
        return state if state.data_ptr() in keep else state.detach().clone()
    if isinstance(state, dict):
        return type(state)((key, copied(value, keep)) for key, value in state.items())
    if isinstance(state, list | tuple):
        return type(state)(copied(value, keep) for value in state)
    return state


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b.to(a))
