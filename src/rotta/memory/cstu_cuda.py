"""Which newcomer takes which place in the bank, decided and carried out by two kernels on the GPU.

Nothing goes to the host and nothing is launched per sample, so that a CUDA graph can hold it.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from rotta.memory.bank import EMPTY

_LARGEST_BANK = 4096  # one program holds it in registers
_PIXELS = 1024  # that one program moves


def usable(like: Tensor) -> bool:
    """Whether the kernels can serve a bank: on CUDA, with Triton installed, of reasonable size."""
    return like.is_cuda and len(like) <= _LARGEST_BANK and _kernels_work(like.device)


@cache
def _kernels_work(device: torch.device) -> bool:
    """Try once: Triton may be missing, or lack the compiler that it builds its launcher with."""
    if find_spec("triton") is None:
        return False
    label, zero = torch.full((1,), EMPTY, device=device), torch.zeros(1, device=device)
    held = label, zero.long(), zero.double(), zero.long()
    images = torch.zeros(1, 1, 1, 1, device=device)
    try:
        came_from = decide(*held, zero.long(), zero, zero.double().expand(3).contiguous(), 1)
        move_in(images, images, came_from)
    except Exception as error:  # whatever it is, the host can do the same
        warnings.warn(f"the bank is kept by the host, since Triton fails: {error}", stacklevel=2)
        return False
    return True


def decide(
    label: Tensor,
    arrived: Tensor,
    uncertainty: Tensor,
    clock: Tensor,
    new_label: Tensor,
    new_uncertainty: Tensor,
    weights: Tensor,
    num_classes: int,
) -> Tensor:
    """As :func:`rotta.memory.cstu_host.decide`, but for what it returns.

    Returns:
        Which newcomer ended up in each place, (N,), int64; −1 where none did.
    """
    from rotta.memory.cstu_kernel import fill  # imports Triton

    came_from = torch.empty_like(label)
    block = max(32, 1 << (len(label) - 1).bit_length())
    with torch.cuda.device(label.device):
        fill[(1,)](
            label,
            arrived,
            uncertainty,
            clock,
            new_label.contiguous(),
            new_uncertainty.contiguous(),
            weights,
            came_from,
            len(new_label),
            len(label),
            num_classes,
            BLOCK=block,
            num_warps=max(1, min(16, block // 128)),
            # a fused multiply-add rounds once where the host rounds twice: ties would differ
            enable_fp_fusion=False,
        )
    return came_from


def move_in(images: Tensor, x: Tensor, came_from: Tensor) -> None:
    """Take over the images of those who came, whoever they are.

    Args:
        images: Of each place, (N, 3, H, W), in whatever layout; changed in place.
        x: Of each newcomer, (B, 3, H, W).
        came_from: Which newcomer moved into each place, (N,); −1 for none.
    """
    from rotta.memory.cstu_kernel import move  # imports Triton

    pixels = images[0].numel()
    grid = len(images), -(-pixels // _PIXELS)
    layout = torch.contiguous_format if images.is_contiguous() else torch.channels_last
    with torch.cuda.device(images.device):
        move[grid](images, x.contiguous(memory_format=layout), came_from, pixels, BLOCK=_PIXELS)
