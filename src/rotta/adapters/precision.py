"""In which precision a network computes: float32, or on CUDA half of it."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from rotta.nn.fusion import is_known

FULL = "float32"
PRECISIONS = {"float16": torch.float16, "bfloat16": torch.bfloat16}
"""Besides :data:`FULL`."""


def check_precision(net: nn.Module, precision: str) -> None:
    """Refuse what is no precision, and half of it where that is not faster.

    Raises:
        ValueError: Says what to do.
    """
    if precision not in (FULL, *PRECISIONS):
        raise ValueError(
            f"precision must be one of {', '.join((FULL, *PRECISIONS))}, not {precision!r}"
        )
    if precision != FULL and not all(p.is_cuda for p in net.parameters()):
        raise ValueError(
            f"precision={precision!r} is faster on CUDA devices only: move the network to one "
            "before you wrap it, or leave the option out"
        )


def reference_precision(net: nn.Module, precision: str) -> str:
    """In which to compute what only a guard compares with.

    On CUDA half of float32 will do: answers change where two are nearly as likely as each other,
    and a guard looks for more than that. Not float16, in which an unusual network might find no
    number for its largest values. A network whose code we do not know may not be able to.

    Args:
        net: The network that is compared with; it has parameters.
        precision: In which the method itself computes.
    """
    on_cuda = all(p.is_cuda and p.dtype == torch.float32 for p in net.parameters())
    if precision != FULL or not on_cuda or not is_known(net):
        return precision
    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else precision


def computing_in(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Within, networks compute in it; their parameters stay as they are.

    Example:
        >>> layer, x = nn.Linear(2, 2), torch.rand(1, 2)
        >>> with computing_in("bfloat16", x.device):
        ...     half = layer(x).dtype
        >>> half, layer(x).dtype
        (torch.bfloat16, torch.float32)
    """
    if precision == FULL:
        return nullcontext()
    return torch.autocast(device.type, dtype=PRECISIONS[precision])
