"""Instance-aware batch normalisation (NOTE, Gong et al., NeurIPS 2022, Sec. 3.1)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn.moments import instance_moments
from rotta.nn.trained_norm import BatchNorm, TrainedNorm, trained


class InstanceAwareNorm(TrainedNorm):
    """Batch statistics, corrected for instances whose own statistics are far from them.

    An instance's mean and variance are sampled from H·W values, so some distance is chance. What
    goes beyond k standard errors is taken for its own (soft shrinkage); all else follows the
    batch. The batch's are the running statistics in evaluation mode. In training mode they are
    those of the batch at hand, towards which the running ones move.

    Args:
        running_mean: (C,).
        running_var: (C,).
        weight: γ, (C,).
        bias: β, (C,).
        k: Standard errors that count as chance.
        momentum: How far the running statistics move.
        eps: Added to variances.

    Example:
        >>> from torch import nn
        >>> bn = nn.BatchNorm2d(3).eval()
        >>> x = torch.randn(2, 3, 8, 8)  # what chance does to the statistics is left alone
        >>> torch.allclose(InstanceAwareNorm.from_batchnorm(bn)(x), bn(x), atol=1e-5)
        True
    """

    def __init__(
        self,
        running_mean: Tensor,
        running_var: Tensor,
        weight: Tensor,
        bias: Tensor,
        *,
        k: float = 4.0,
        momentum: float = 0.01,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(running_mean, running_var, weight, bias, eps)
        self.k = k
        self.momentum = momentum

    @classmethod
    def from_batchnorm(
        cls, bn: BatchNorm, k: float = 4.0, momentum: float = 0.01
    ) -> "InstanceAwareNorm":
        """Take over a trained layer's statistics, γ, β, device, dtype and mode.

        Raises:
            ValueError: The layer keeps no running statistics, so there is nothing to start from.
        """
        return cls(*trained(bn), k=k, momentum=momentum, eps=bn.eps).train(bn.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, …)."""
        shape = [1, -1] + [1] * (x.ndim - 2)
        weight, bias = self.weight.view(shape), self.bias.view(shape)
        if x[0, 0].numel() > 1:
            mean, var = self._corrected(x)
        else:  # one value has no variance of its own
            mean, var = self._batch_statistics(x, torch.zeros_like(x), 1)
        scale = weight * torch.rsqrt(var + self.eps)
        return torch.addcmul(bias - mean * scale, x, scale)

    def _corrected(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each instance's mean and variance, (B, C, 1, …)."""
        values = x[0, 0].numel()
        own_var, own_mean = instance_moments(x)
        mean, var = self._batch_statistics(own_mean, own_var, values)
        own_var = own_var * (values / (values - 1))
        error_of_mean = ((var + self.eps) / values).sqrt()
        error_of_var = (var + self.eps) * (2 / (values - 1)) ** 0.5
        mean = mean + shrunk(own_mean - mean, self.k * error_of_mean)
        var = var + shrunk(own_var - var, self.k * error_of_var)
        return mean, var.clamp(min=0)

    def _batch_statistics(
        self, own_mean: Tensor, own_var: Tensor, values: int
    ) -> tuple[Tensor, Tensor]:
        """The batch's mean and unbiased variance, (1, C, 1, …), from those of its instances.

        Args:
            own_mean: (B, C, 1, …).
            own_var: Biased, (B, C, 1, …).
            values: From how many values these are.
        """
        shape = [1, -1] + [1] * (own_mean.ndim - 2)
        count = len(own_mean) * values
        if not self.training or count == 1:
            return self.running_mean.view(shape), self.running_var.view(shape)
        mean = own_mean.mean(dim=0, keepdim=True)
        spread = own_var + (own_mean - mean).square()
        var = spread.mean(dim=0, keepdim=True) * (count / (count - 1))
        self.running_mean.lerp_(mean.detach().flatten(), self.momentum)
        self.running_var.lerp_(var.detach().flatten(), self.momentum)
        return mean, var


def shrunk(x: Tensor, by: Tensor) -> Tensor:
    """Soft shrinkage: what of ``x`` goes beyond ±``by``.

    Example:
        >>> shrunk(torch.tensor([-3.0, 0.5, 3.0]), torch.tensor(1.0)).tolist()
        [-2.0, 0.0, 2.0]
    """
    return F.relu(x - by) - F.relu(-x - by)
