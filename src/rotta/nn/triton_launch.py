"""Launch Triton kernels quickly.

At every call Triton works out anew what a kernel is called with, which takes longer than most of
our kernels run. Here that is done once for each kind of call.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch

_launchers: dict[tuple[Hashable, ...], Callable[..., None]] = {}


def launch(kernel: Any, kind: Hashable, grid: tuple[int, ...], warps: int, *arguments: Any) -> None:
    """Launch a kernel on the device of its first argument, in the current stream.

    Args:
        kernel: A function under ``triton.jit``.
        kind: Tells calls apart that Triton compiles differently: by dtypes and alignment of the
            tensors, by the values of whole numbers and constants.
        grid: How many programs, along two or three axes.
        warps: Of each program.
        arguments: All of the kernel's, in order, constants included.
    """
    device = arguments[0].get_device()
    if device < 0:  # Triton's interpreter, which compiles nothing
        kernel[grid](*arguments, num_warps=warps)
        return
    if device != torch._C._cuda_getDevice():
        with torch.cuda.device(device):
            launch(kernel, kind, grid, warps, *arguments)
        return
    known = (id(kernel), device, grid, kind)
    launcher = _launchers.get(known)
    if launcher is not None:
        launcher(*arguments, stream=torch._C._cuda_getCurrentRawStream(device))
        return
    compiled = kernel[grid](*arguments, num_warps=warps)
    _launchers[known] = compiled[(*grid, 1)[:3]]
