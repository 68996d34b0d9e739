"""Normalisation on the GPU, robust or by each pass, ReLU included, in one or two launches.

The kernels see (R, C), channels innermost: 2-D, or 4-D in channels-last layout with R = N·H·W.
x is float32, float16 or bfloat16; they reckon in float32. Vectors per channel are float32 and
begin where their memory was allocated, as those of our layers do.
Nothing waits for the GPU, so that a CUDA graph can hold it, and equal inputs give equal bits.
"""

import warnings
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from rotta.nn.triton_launch import launch

_DTYPES = frozenset({torch.float32, torch.float16, torch.bfloat16})
_MOST_VALUES = 2**31  # beyond, their places do not fit an int32

_PROGRAMS = 264  # two for each multiprocessor of an H100 or H200: their registers allow no more
_WARPS = 8
_BLOCK_C = 32  # 64 bytes of float16; wider blocks mean more chunks, thus more parts to add up
_TILE = 8192  # values that a program reads at once
_MOST_CHUNKS = 128  # every program adds up the parts of all chunks at one go
_KEPT_ROWS = 5  # of what move_and_normalise returns, before the parts


def usable(x: Tensor) -> bool:
    """Whether the kernels can serve: on CUDA, with Triton installed, channels innermost."""
    if not x.is_cuda or x.dtype not in _DTYPES or not 0 < x.numel() < _MOST_VALUES:
        return False
    if x.ndim == 4:
        innermost = x.is_contiguous(memory_format=torch.channels_last)
    else:
        innermost = x.ndim == 2 and x.is_contiguous()
    return innermost and _kernels_work(x.device)


@cache
def _kernels_work(device: torch.device) -> bool:
    """Try once: Triton may be missing, or lack the compiler that it builds its launcher with."""
    if find_spec("triton") is None:
        return False
    x, one = torch.zeros(2, _BLOCK_C, device=device), torch.ones(_BLOCK_C, device=device)
    try:
        normalise(x, one, one, one, one, 1e-5, False)
        _, saved = move_and_normalise(x, one.clone(), one.clone(), one, one, 0.5, 1e-5, False)
        backward(x, x, one, one, saved, 0.25, False, True)
        normalise_passes(x, 2, one, one, 1e-5, False)
    except Exception as error:  # whatever it is, PyTorch's own kernels can do the same
        warnings.warn(
            f"normalisation is left to PyTorch's kernels, since Triton fails: {error}", stacklevel=2
        )
        return False
    return True


def normalise(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    relu: bool,
    out: Tensor | None = None,
) -> Tensor:
    """γ·(x − μ)/√(σ² + ε) + β, and ReLU of it if wanted, by one kernel.

    Args:
        x: As :func:`usable` wants it; (B, C) or (B, C, H, W).
        mean: μ, (C,).
        var: σ², (C,).
        weight: γ, (C,).
        bias: β, (C,).
        eps: ε.
        relu: Whether to apply ReLU.
        out: ``x``, if it may be overwritten.

    Returns:
        In the layout and dtype of ``x``.
    """
    channels = x.shape[1]
    plan = _plan(x.numel() // channels, channels)
    y = torch.empty_like(x) if out is None else out
    size = (plan.rows, channels, plan.chunk)
    blocks = (plan.tile_rows, plan.block_c)
    kernel = _kernels().normalise
    kind = (id(plan), relu, x.dtype, x.data_ptr() & 15, y.data_ptr() & 15)
    launch(
        kernel, kind, plan.grid, _WARPS, x, y, mean, var, weight, bias, eps, *size, relu, *blocks
    )
    return y


def move_and_normalise(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    alpha: float,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor]:
    """Move the statistics towards those of the batch, then normalise with them, by two kernels.

    Args:
        x: As :func:`usable` wants it; (B, C) or (B, C, H, W).
        running_mean: μ_g, (C,); changed in place.
        running_var: σ²_g, (C,); changed in place.
        weight: γ, (C,).
        bias: β, (C,).
        alpha: Share of the batch in the new statistics.
        eps: Added to the variance.
        relu: Whether to apply ReLU.

    Returns:
        The output, in the layout and dtype of ``x``; and what :func:`backward` needs, float32,
        (…, C): the first three rows are μ_b, the moved μ_g and 1/√(moved σ²_g + ε), the others
        what the kernels told each other.
    """
    channels = x.shape[1]
    plan = _plan(x.numel() // channels, channels)
    kept_rows = _KEPT_ROWS + 2 * plan.chunks
    saved = torch.empty(kept_rows, channels, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    size = (plan.rows, channels, plan.chunk)
    blocks = (plan.tile_rows, plan.block_c)
    kernels, running = _kernels(), (running_mean, running_var)
    kind = (id(plan), relu, x.dtype, x.data_ptr() & 15)
    launch(kernels.moments, kind, plan.grid, _WARPS, x, *running, saved, *size, *blocks)
    numbers = (alpha, eps, *size, plan.chunks, relu, *blocks, _MOST_CHUNKS)
    move = kernels.move_and_normalise
    launch(move, kind, plan.grid, _WARPS, x, y, *running, weight, bias, saved, *numbers)
    return y, saved


def normalise_passes(
    x: Tensor, passes: int, weight: Tensor, bias: Tensor, eps: float, relu: bool
) -> Tensor:
    """Normalise each of several passes with its own mean and variance, by two kernels for all.

    Args:
        x: As :func:`usable` wants it; (P·B, C) or (P·B, C, H, W), pass after pass.
        passes: P.
        weight: γ, (C,).
        bias: β, (C,).
        eps: Added to the variance.
        relu: Whether to apply ReLU.

    Returns:
        In the layout and dtype of ``x``.
    """
    channels = x.shape[1]
    plan = _plan(x.numel() // channels // passes, channels)
    parts = torch.empty(2 * passes * plan.chunks, channels, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    size = (plan.rows, channels, plan.chunk)
    # smaller tiles: with so many programs it is better that more of them are at work at a time
    blocks = (plan.paired_rows, plan.block_c)
    grid = (*plan.grid, passes)
    kernels, kind = _kernels(), (id(plan), relu, x.dtype, x.data_ptr() & 15)
    launch(kernels.pass_moments, kind, grid, _WARPS, x, parts, *size, *blocks)
    numbers = (eps, *size, relu, *blocks, _MOST_CHUNKS)
    launch(kernels.pass_normalise, kind, grid, _WARPS, x, y, weight, bias, parts, *numbers)
    return y


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    saved: Tensor,
    share: float,
    relu: bool,
    of_x: bool,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """The gradients of :func:`move_and_normalise`, by two kernels.

    Args:
        grad: ∂L/∂y, of the shape of ``x``, in whatever layout and dtype.
        x: What went in.
        weight: γ, (C,).
        bias: β, (C,).
        saved: What the forward pass returned.
        share: α/N, for N values per channel.
        relu: Whether the forward pass applied ReLU.
        of_x: Whether ∂L/∂x is wanted.

    Returns:
        ∂L/∂x in the layout and dtype of ``x``, or None; ∂L/∂γ; ∂L/∂β.
    """
    channels = x.shape[1]
    plan = _plan(x.numel() // channels, channels)
    if grad.stride() != x.stride():
        grad = torch.empty_like(x, dtype=grad.dtype).copy_(grad)
    parts = torch.empty(2 * plan.chunks, channels, dtype=torch.float32, device=x.device)
    grad_x = torch.empty_like(x) if of_x else None
    grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
    given = (grad, x, weight, bias, saved, parts)
    size = (plan.rows, channels, plan.chunk)
    blocks = (plan.paired_rows, plan.block_c)
    kernels = _kernels()
    aligned = x.data_ptr() & 15, grad.data_ptr() & 15
    kind = (id(plan), relu, of_x, x.dtype, grad.dtype, aligned)
    launch(kernels.gradient_sums, kind, plan.grid, _WARPS, *given, *size, relu, *blocks)
    results = (grad_x, grad_weight, grad_bias)
    numbers = (share, *size, plan.chunks, relu, *blocks, _MOST_CHUNKS)
    grid = plan.grid if of_x else (plan.grid[0], 1)
    launch(kernels.gradients, kind, grid, _WARPS, *given, *results, *numbers)
    return results


class _Plan(NamedTuple):
    """How (rows, channels) is shared out."""

    rows: int
    channels: int
    chunk: int  # rows of each program
    chunks: int
    grid: tuple[int, int]
    block_c: int
    tile_rows: int  # in kernels that read x
    paired_rows: int  # in kernels that read x and ∂L/∂y


@cache  # for good: launches are told apart by which plan it is
def _plan(rows: int, channels: int) -> _Plan:
    block_c = min(_BLOCK_C, 1 << (channels - 1).bit_length())
    blocks = -(-channels // block_c)
    tile_rows = _TILE // block_c
    paired_rows = tile_rows // 2
    chunks = max(1, min(_PROGRAMS // blocks, _MOST_CHUNKS, rows // paired_rows))
    chunk = -(-rows // chunks)
    chunks = -(-rows // chunk)
    return _Plan(rows, channels, chunk, chunks, (blocks, chunks), block_c, tile_rows, paired_rows)


@cache
def _kernels() -> ModuleType:
    from rotta.nn import norm_kernels  # imports Triton

    return norm_kernels
