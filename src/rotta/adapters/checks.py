"""What is asked of a method's network and options before it is built."""

import math

import torch
from torch import nn

from rotta.adapters.input_check import HALF


def check_between(low: float, high: float, **values: float) -> None:
    """Refuse a value outside of low … high by its name; NaN too."""
    for name, value in values.items():
        if not (low <= value <= high and math.isfinite(value)):
            bounds = f"{low:g} or more" if high == math.inf else f"between {low:g} and {high:g}"
            raise ValueError(f"{name} must be {bounds}, got {value}")


def check_at_least_one(**counts: int) -> None:
    """Refuse what is not a whole number from 1 on by its name."""
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ValueError(f"{name} must be 1 or more, a whole number, got {count!r}")


def check_usable(net: nn.Module) -> None:
    """Refuse what no method can work on."""
    if not isinstance(net, nn.Module):
        raise ValueError(f"the network must be an nn.Module, not {type(net).__name__}")
    if isinstance(net, torch.jit.ScriptModule):
        raise ValueError("a scripted network cannot be taken apart: wrap it before scripting it")
    for name, parameter in net.named_parameters():
        if parameter.is_inference():
            raise ValueError(
                f"the network was built under inference_mode ({name}), so nothing in it can be "
                "trained: build it outside"
            )
        if parameter.dtype in HALF:
            raise ValueError(
                f"the network is in half precision ({name} is {parameter.dtype}): statistics and "
                "small updates would be lost. Convert it with net.float()"
            )
