"""Normalisation on a CPU, ReLU included, by the kernels of :mod:`rotta.nn.native`.

The kernels see (R, C), channels innermost: 2-D, or 4-D in channels-last layout with R = N·H·W. All
is float32. The work is shared out in pieces that do not depend on how many threads there are, so
that equal inputs give equal bits. Gradients are numbers, without gradients of their own.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from rotta.nn import native
from rotta.nn.watching import are_plain, is_watched

_PIECE = 16_384
"""Values of a batch that are one core's work at a time: they fit its cache, and are read twice."""


def usable(x: Tensor) -> bool:
    """Whether the kernels can serve: built, on a CPU, in float32, channels innermost."""
    if not x.is_cpu or x.dtype != torch.float32:
        return False
    if is_watched() or x.layout != torch.strided or not are_plain(x):
        return False
    return _is_innermost(x) and x.numel() > 0 and native.library() is not None


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
    """γ·(x − μ)/√(σ² + ε) + β, and ReLU of it if wanted, in one pass.

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
        In the layout of ``x``.
    """
    y = torch.empty_like(x) if out is None else _changed(out)
    rows, numbers = _rows(x), _vectors(x, mean, var, weight, bias)
    _call("normalise", x.data_ptr(), y.data_ptr(), *rows, *numbers, eps, relu)
    return y


def scaled_and_shifted(
    x: Tensor, scale: Tensor, shift: Tensor, relu: bool, out: Tensor | None = None
) -> Tensor:
    """``scale·x + shift``, and ReLU of it if wanted, in one pass.

    Args:
        x: As :func:`usable` wants it; (B, C) or (B, C, H, W).
        scale: Of each channel, (C,), or of those of each image, (B, C).
        shift: Likewise.
        relu: Whether to apply ReLU.
        out: ``x``, if it may be overwritten.

    Returns:
        In the layout of ``x``.
    """
    y = torch.empty_like(x) if out is None else _changed(out)
    own = scale.ndim == 2
    rows, numbers = _rows(x, own), _vectors(x, scale, shift, own=own)
    _call("scale_and_shift", x.data_ptr(), y.data_ptr(), *rows, *numbers, own, relu)
    return y


def channel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each channel, (C,) both.

    Args:
        x: As :func:`usable` wants it; (B, C) or (B, C, H, W).
    """
    return _pooled(_moments(x, own=False), *_rows(x))


def instance_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each channel of each image, (B, C) both.

    Args:
        x: As :func:`usable` wants it; (B, C, H, W).
    """
    mean, var = _moments(x, own=True)
    return var, mean


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
    """Move the statistics towards those of the batch, then normalise with them.

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
        The output, in the layout of ``x``; and what :func:`backward` needs, (3, C): μ_b, the moved
        μ_g and 1/√(moved σ²_g + ε).
    """
    _vectors(x, running_mean, running_var, weight, bias)  # before anything changes
    var, mean = channel_moments(x)
    if alpha == 1.0:  # by arithmetic, what is infinite would come to be no number
        torch._foreach_copy_([running_mean, running_var], [mean, var])
    else:
        torch._foreach_lerp_([running_mean, running_var], [mean, var], alpha)
    inverse = torch.rsqrt(running_var + eps)
    saved = torch.stack([mean, running_mean, inverse])
    return scaled_and_shifted(x, *_by(running_mean, inverse, weight, bias), relu), saved


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
    """The gradients of :func:`move_and_normalise`.

    Args:
        grad: ∂L/∂y, of the shape of ``x``, in whatever layout.
        x: What went in.
        weight: γ, (C,).
        bias: β, (C,).
        saved: What the forward pass returned.
        share: α/N, for N values per channel.
        relu: Whether the forward pass applied ReLU.
        of_x: Whether ∂L/∂x is wanted.

    Returns:
        ∂L/∂x in the layout of ``x``, or None; ∂L/∂γ; ∂L/∂β.
    """
    batch_mean, mean, inverse = saved.unbind()
    scale, shift = _by(mean, inverse, weight, bias)
    x = laid_out(x)  # whoever kept it since then may have brought it into another layout
    grad = laid_out(grad)
    of_scale, of_shift = gradient_sums(grad, x, scale, shift, mean, relu=relu)
    grad_weight = of_scale * inverse
    if not of_x:
        return None, grad_weight, of_shift
    slope = -share * scale * inverse * grad_weight
    offset = torch.addcmul(-share * scale * of_shift, slope, batch_mean, value=-1)
    grad_x = gradient(grad, x, scale, shift, slope, offset, relu=relu)
    return grad_x, grad_weight, of_shift


def normalise_passes(
    x: Tensor, passes: int, weight: Tensor, bias: Tensor, eps: float, relu: bool
) -> Tensor:
    """Normalise each of several passes with its own mean and variance.

    Args:
        x: As :func:`usable` wants it; (P·B, C) or (P·B, C, H, W), pass after pass.
        passes: P.
        weight: γ, (C,).
        bias: β, (C,).
        eps: Added to the variance.
        relu: Whether to apply ReLU.

    Returns:
        In the layout of ``x``.
    """
    y = torch.empty_like(x)
    for one, normal in zip(x.chunk(passes), y.chunk(passes), strict=True):
        var, mean = channel_moments(one)
        normalise(one, mean, var, weight, bias, eps, relu, out=normal)
    return y


def gradient_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, centre: Tensor, *, relu: bool
) -> tuple[Tensor, Tensor]:
    """Σ g·(x − centre) and Σ g, where g is ∂L/∂y of :func:`scaled_and_shifted` behind its ReLU.

    Args:
        grad: ∂L/∂y, laid out as ``x``.
        x: What went in.
        scale: Of each channel, (C,), or of those of each image, (B, C); the sums are too.
        shift: Likewise.
        centre: Likewise.
        relu: Whether there was a ReLU.
    """
    own = scale.ndim == 2
    rows, numbers = _rows(x, own), _vectors(x, scale, shift, centre, own=own)
    sums = x.new_empty(2, -(-rows[0] // rows[1]), rows[2])
    results = (each.data_ptr() for each in sums.unbind())
    given = (grad.data_ptr(), x.data_ptr())
    _call("gradient_sums", *given, *rows, *numbers, own, relu, *results)
    of_scale, of_shift = (sums if own else sums.sum(dim=1)).unbind()
    return of_scale, of_shift


def gradient(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    slope: Tensor,
    offset: Tensor,
    *,
    relu: bool,
) -> Tensor:
    """``scale·g + slope·x + offset``, g as in :func:`gradient_sums`.

    Args:
        grad: ∂L/∂y, laid out as ``x``.
        x: What went in.
        scale: Of each channel, (C,), or of those of each image, (B, C).
        shift: Likewise.
        slope: Likewise.
        offset: Likewise.
        relu: Whether there was a ReLU.
    """
    of_x = torch.empty_like(x)
    own = scale.ndim == 2
    rows, numbers = _rows(x, own), _vectors(x, scale, shift, slope, offset, own=own)
    tensors = (grad.data_ptr(), x.data_ptr(), of_x.data_ptr())
    _call("gradient", *tensors, *rows, *numbers, own, relu)
    return of_x


def laid_out(x: Tensor) -> Tensor:
    """As the kernels want it: behind a mean over pixels, a gradient comes in another layout.

    Raises:
        ValueError: It is a tensor of a kind that has no memory to read.
    """
    layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
    x = x.resolve_neg().float().contiguous(memory_format=layout)
    if not are_plain(x):
        raise ValueError(
            f"a {type(x).__name__} came to the backward pass of a normalisation layer, whose "
            "kernels read memory: set ROTTA_NATIVE=0 to leave it to PyTorch's"
        )
    return x


def _by(mean: Tensor, inverse: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and shift, (C,), the same bits each time: the sign after them decides about a ReLU."""
    scale = weight * inverse
    return scale, torch.addcmul(bias, mean, scale, value=-1)


def _moments(x: Tensor, own: bool) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each group of rows, (groups, C) both."""
    rows = _rows(x, own)
    mean, var = x.new_empty(2, -(-rows[0] // rows[1]), rows[2]).unbind()
    _call("moments", x.data_ptr(), *rows, mean.data_ptr(), var.data_ptr())
    return mean, var


def _pooled(
    of_groups: tuple[Tensor, Tensor], rows: int, group: int, channels: int
) -> tuple[Tensor, Tensor]:
    mean, var = of_groups[0].new_empty(2, channels).unbind()
    given = (each.data_ptr() for each in of_groups)
    _call("pooled_moments", *given, rows, group, channels, mean.data_ptr(), var.data_ptr())
    return var, mean


def _rows(x: Tensor, own: bool = False) -> tuple[int, int, int]:
    """Rows, how many of them are a group, and channels; a group is an image if numbers are its."""
    images, channels = x.shape[:2]
    rows = x.numel() // channels
    return rows, rows // images if own else max(1, _PIECE // channels), channels


def _vectors(x: Tensor, *vectors: Tensor, own: bool = False) -> tuple[int, ...]:
    """Where numbers of channels are, which a kernel would take from anywhere."""
    shape, device = x.shape[:2] if own else x.shape[1:2], x.device
    for each in vectors:
        if each.device != device:
            raise ValueError(
                f"a batch on {device} meets a normalisation layer on {each.device}: bring both "
                "to one device"
            )
        if each.shape != shape or each.dtype != torch.float32 or not each.is_contiguous():
            raise ValueError(
                f"{tuple(x.shape)} is normalised by numbers of channels that are {each.dtype}, "
                f"{tuple(each.shape)}: expected one float32 after the other, {tuple(shape)}"
            )
    return tuple(each.data_ptr() for each in vectors)


def _is_innermost(x: Tensor) -> bool:
    if x.ndim == 4:
        return x.is_contiguous(memory_format=torch.channels_last)
    return x.ndim == 2 and x.is_contiguous()


def _changed(x: Tensor) -> Tensor:
    """The same, after which autograd knows that its memory is no longer what it was."""
    if not x.is_inference():
        increment_version(x)
    return x


def _call(name: str, *arguments: object) -> None:
    _function(name)(*arguments, torch.get_num_threads())


@cache
def _function(name: str) -> Callable[..., None]:
    library = native.library()
    assert library is not None, "nobody asked whether it is usable"
    function: Callable[..., None] = getattr(library, f"rotta_{name}")
    return function
