"""The strong view by three kernels on the GPU, instead of some ninety small operations.

No gradient flows through them, and nothing waits for the GPU, so that a CUDA graph can hold them.
"""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

_COLOUR_PIXELS, _SHAPE_PIXELS = 1024, 256  # that one program makes
_DRAWS = 16  # of one group


def usable(x: Tensor) -> bool:
    """Whether the kernels can serve a batch: RGB in single precision, on CUDA, with Triton."""
    of_their_kind = x.is_cuda and x.dtype == torch.float32 and x.shape[1] == 3
    return of_their_kind and _kernels_work(x.device)


@cache
def _kernels_work(device: torch.device) -> bool:
    """Try once: Triton may be missing, or lack the compiler that it builds its launcher with."""
    if find_spec("triton") is None:
        return False
    pixel = torch.zeros(1, 3, 1, 1, device=device)
    still = torch.ones(1, _DRAWS, device=device)  # each step is contrast
    try:
        strong_view(pixel, still, pixel)
    except Exception as error:  # whatever it is, PyTorch can do the same
        warnings.warn(f"strong views are made without Triton, which fails: {error}", stacklevel=2)
        return False
    return True


def strong_view(x: Tensor, draws: Tensor, noise: Tensor) -> Tensor:
    """As :func:`rotta.nn.augment.strong_view` of G batches, or G copies of one, to rounding.

    Args:
        x: RGB in [0, 1], (G · B, 3, H, W) or (B, 3, H, W), float32.
        draws: Of each group, (G, 16), from :meth:`rotta.nn.augment.StrongView.packed`.
        noise: Standard normal, (G · B, 3, H, W), contiguous.

    Returns:
        The views in [0, 1], (G · B, 3, H, W), in the memory format of ``x``.
    """
    from rotta.nn import augment_kernels as kernels  # imports Triton

    images, _, height, width = x.shape
    batch = len(noise) // len(draws)
    layout = torch.contiguous_format
    if not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
        layout = torch.channels_last
    last = layout == torch.channels_last
    x = x.contiguous(memory_format=layout)
    tiles = -(-height * width // _COLOUR_PIXELS)
    grid = len(noise), tiles
    greys = x.new_empty(grid)
    coloured, views = torch.empty_like(noise), torch.empty_like(noise, memory_format=layout)
    seen = x, draws, greys
    sizes = batch, images, height * width
    options = {"CHANNELS_LAST": last, "BLOCK": _COLOUR_PIXELS, "num_warps": 8}
    with torch.cuda.device(x.device):
        kernels.sum_greys[grid](*seen, *sizes, **options)
        kernels.colour[grid](
            *seen, coloured, *sizes, **options, TILES=1 << (tiles - 1).bit_length()
        )
        kernels.shape[(len(noise), -(-height * width // _SHAPE_PIXELS))](
            *(coloured, draws, noise, views, batch, height, width),
            CHANNELS_LAST=last,
            BLOCK=_SHAPE_PIXELS,
        )
    return views
