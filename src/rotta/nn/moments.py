"""Means and variances, by our kernels where they can serve."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn import norm_cpu


def channel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each channel of (B, C, …): (C,) and (C,); no gradient.

    Example:
        >>> var, mean = channel_moments(torch.tensor([[[1.0, 3.0]]]))
        >>> var.tolist(), mean.tolist()
        ([1.0], [2.0])
    """
    x = x.detach()
    if norm_cpu.usable(x):
        return norm_cpu.channel_moments(x)
    # by BatchNorm's own kernel: ``torch.var_mean`` is several times slower
    mean, var = torch.batch_norm_update_stats(x, None, None, 0.0)
    return var, mean


def instance_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Biased variance and mean of each channel of each image of (B, C, …).

    BatchNorm's kernel cannot tell images apart where channels are innermost; three plain passes
    are as fast as it is.

    Returns:
        (B, C, 1, …) both, without gradient.

    Example:
        >>> var, mean = instance_moments(torch.tensor([[[1.0, 3.0]]]))
        >>> var.tolist(), mean.tolist()
        ([[[1.0]]], [[[2.0]]])
    """
    x, axes = x.detach(), list(range(2, x.ndim))
    if norm_cpu.usable(x):
        var, mean = norm_cpu.instance_moments(x)
        shape = *var.shape, *[1] * len(axes)
        return var.view(shape), mean.view(shape)
    mean = x.mean(dim=axes, keepdim=True)
    squares = F.mse_loss(x, mean.expand_as(x), reduction="none")  # in one pass, not two
    return squares.mean(dim=axes, keepdim=True), mean
