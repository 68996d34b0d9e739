"""Which newcomer takes which place in the bank, decided in one kernel on the GPU.

Nothing goes to the host, and nothing is launched per sample.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from rotta.memory.bank import EMPTY

_LARGEST_BANK = 4096  # one program holds it in registers


def usable(like: Tensor) -> bool:
    """Whether the kernel can serve a bank: on CUDA, with Triton installed, of reasonable size."""
    return like.is_cuda and len(like) <= _LARGEST_BANK and _kernel_works(like.device)


@cache
def _kernel_works(device: torch.device) -> bool:
    """Try it once: Triton may be missing, or lack the compiler that it builds its launcher with."""
    if find_spec("triton") is None:
        return False
    place, new = torch.full((1,), EMPTY, device=device), torch.zeros(1, device=device)
    clock = torch.zeros((), dtype=torch.int64, device=device)
    numbers = place, torch.zeros_like(place), clock, new.double(), new.long(), new.double()
    try:
        decide(*numbers, num_classes=1, lambda_t=1.0)
    except Exception as error:  # whatever it is, the host can do the same
        warnings.warn(f"the bank is kept by the host, since Triton fails: {error}", stacklevel=2)
        return False
    return True


def decide(
    label: Tensor,
    arrived: Tensor,
    clock: Tensor,
    weighted: Tensor,
    new_label: Tensor,
    new_weighted: Tensor,
    *,
    num_classes: int,
    lambda_t: float,
) -> Tensor:
    """As :func:`rotta.memory.cstu_host.decide`."""
    from rotta.memory.cstu_kernel import fill  # imports Triton

    came_from = torch.full_like(label, EMPTY)
    seat = label + 1  # the empty places are class 0 here
    count = label.new_zeros(num_classes + 1).index_add_(0, seat, torch.ones_like(label))
    # a number given to a kernel becomes float32; the scores need all of float64
    lambda_t_double = torch.full((), lambda_t, dtype=torch.float64, device=label.device)
    block = max(32, 1 << (len(label) - 1).bit_length())
    with torch.cuda.device(label.device):
        fill[(1,)](
            label,
            arrived,
            clock,
            weighted,
            count[seat],
            new_label.contiguous(),
            new_weighted,
            came_from,
            lambda_t_double,
            len(new_label),
            len(label),
            num_classes,
            BLOCK=block,
            num_warps=max(1, min(8, block // 128)),
        )
    return came_from
