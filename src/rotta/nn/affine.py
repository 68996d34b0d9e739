"""Scale and shift of each channel: what normalisation comes to once its statistics are known."""

import torch
import torch.nn.functional as F
from torch import Tensor

_MANY = 1 << 16  # values in which a few calls for scale and shift do not show


def normalised(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """γ·(x − μ)/√(σ² + ε) + β by given statistics.

    Args:
        x: (B, C, …).
        mean: μ, (C,).
        var: σ², (C,).
        weight: γ, (C,).
        bias: β, (C,).
        eps: ε.
        out: ``x``, if it may be overwritten; where that is no faster, it is not.

    Example:
        >>> x, two = torch.full((1, 1, 1, 1), 5.0), torch.tensor([2.0])
        >>> normalised(x, mean=two, var=two * 2, weight=two, bias=two, eps=0.0).item()
        5.0
    """
    if torch.is_grad_enabled() or not is_plain_faster(x, weight):
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)
    scale = weight / (var + eps).sqrt()
    return scaled_and_shifted(x, scale, torch.addcmul(bias, mean, scale, value=-1), out=out)


def scaled_and_shifted(
    x: Tensor, scale: Tensor, shift: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """``scale·x + shift`` in one pass; no gradient.

    Args:
        x: (B, C, …).
        scale: Of each channel, (C,), or of those of each image, (B, C).
        shift: Likewise.
        out: ``x``, if it may be overwritten; where that is no faster, it is not.

    Example:
        >>> x = torch.ones(1, 2, 1, 1)
        >>> scaled_and_shifted(x, torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0])).flatten()
        tensor([2., 4.])
    """
    if scale.ndim == 1 and not _lie_alike(x, scale):
        zeros, ones = torch.zeros_like(scale), torch.ones_like(scale)
        return torch.batch_norm(x, scale, shift, zeros, ones, False, 0.0, 0.0, False)
    shape = *scale.shape, *[1] * (x.ndim - 2)
    return torch.addcmul(shift.view(shape), x, scale.view(shape), out=out)


def is_plain_faster(x: Tensor, numbers: Tensor) -> bool:
    """Whether plain arithmetic normalises (B, C, …) faster than BatchNorm's kernel does.

    Args:
        x: To be normalised.
        numbers: Of its channels, (C,).
    """
    return x.numel() >= _MANY and _lie_alike(x, numbers)


def _lie_alike(x: Tensor, numbers: Tensor) -> bool:
    """Whether numbers of channels lie in a CPU's memory as the values that they are for.

    Then plain arithmetic takes half the time of BatchNorm's kernel, otherwise several times that.
    """
    innermost = x.device.type == "cpu" and x.ndim == 4 and x.stride(1) == 1
    return innermost and x.dtype == numbers.dtype
