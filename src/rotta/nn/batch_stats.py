"""Test-time batch normalisation: the statistics of the current batch, whatever the mode."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.nn.rbn import BatchNorm


class BatchStatNorm(nn.Module):
    """Normalise with the batch's own mean and variance; nothing is remembered.

    Example:
        >>> layer = BatchStatNorm.from_batchnorm(nn.BatchNorm2d(3).eval())
        >>> layer(torch.rand(2, 3, 4, 4) + 7.0).mean().abs().item() < 1e-4
        True
    """

    def __init__(self, weight: Tensor, bias: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone())
        self.bias = nn.Parameter(bias.detach().clone())
        self.eps = eps

    @classmethod
    def from_batchnorm(cls, bn: BatchNorm) -> "BatchStatNorm":
        """Take over γ and β, or ones and zeros where there are none."""
        features = bn.num_features
        like = next((t for t in (bn.weight, bn.running_mean) if t is not None), torch.empty(0))
        weight = like.new_ones(features) if bn.weight is None else bn.weight
        bias = like.new_zeros(features) if bn.bias is None else bn.bias
        return cls(weight, bias, bn.eps).train(bn.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, …).

        A batch of one value per channel has no variance; it is passed on as β, as the formula
        says, where the framework's own layer would raise an error.
        """
        if x.numel() == x.shape[1]:
            return self.bias.view(1, -1, *[1] * (x.ndim - 2)) + 0 * x
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
