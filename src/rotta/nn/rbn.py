"""Robust batch normalisation (RoTTA, Sec. 3.2): global statistics that the memory bank moves."""

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn.mixed_norm import mixed_norm, moved_and_normalised
from rotta.nn.moments import channel_moments
from rotta.nn.own_kernels import NormKernels, kernels_for
from rotta.nn.trained_norm import BatchNorm, TrainedNorm, trained


class RobustBatchNorm(TrainedNorm):
    """Normalise with the global statistics (μ_g, σ²_g), which updates mix with the batch's.

    In evaluation mode the stored statistics alone normalise. In training mode, which is for the
    samples of the memory bank, they are first moved towards the batch's by α (Eqs. 4 and 5), and
    the moved ones normalise; the gradient flows through the batch's part.

    Args:
        running_mean: μ_s of the source network, (C,).
        running_var: σ²_s of the source network, (C,).
        weight: γ, (C,).
        bias: β, (C,).
        alpha: Share of the batch in the new statistics.
        eps: Added to the variance.

    Example:
        >>> from torch import nn
        >>> layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3), alpha=0.05)
        >>> layer(torch.full((2, 3, 4, 4), 10.0)).shape, round(layer.running_mean[0].item(), 2)
        (torch.Size([2, 3, 4, 4]), 0.5)
    """

    def __init__(
        self,
        running_mean: Tensor,
        running_var: Tensor,
        weight: Tensor,
        bias: Tensor,
        *,
        alpha: float = 0.05,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(running_mean, running_var, weight, bias, eps)
        self.alpha = float(alpha)

    @classmethod
    def from_batchnorm(cls, bn: BatchNorm, alpha: float = 0.05) -> "RobustBatchNorm":
        """Take over a trained layer's statistics, γ, β, device, dtype and mode.

        A layer without γ and β gets ones and zeros: RoTTA has something to train then.

        Raises:
            ValueError: The layer keeps no running statistics, so there is nothing to start from.
        """
        return cls(*trained(bn), alpha=alpha, eps=bn.eps).train(bn.training)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, …)."""
        statistics, affine = (self.running_mean, self.running_var), (self.weight, self.bias)
        kernels = kernels_for(input, *statistics, *affine)
        # outside of updates they know no gradient
        if kernels is not None and (self.training or not torch.is_grad_enabled()):
            return self._by(kernels, input, statistics, affine)
        if self.training:
            var, mean = channel_moments(input)  # Eqs. 1 and 2
            torch._foreach_lerp_(statistics, [mean, var], self.alpha)  # Eqs. 4 and 5
            if torch.is_grad_enabled():
                # a copy: a layer that is used twice moves its statistics before the backward pass
                mixed = torch.stack(statistics)
                return mixed_norm(input, *affine, mean, mixed, self.alpha, self.eps, self.relu)
        return self.activated(F.batch_norm(input, *statistics, *affine, eps=self.eps))

    def _by(
        self,
        kernels: NormKernels,
        x: Tensor,
        statistics: tuple[Tensor, Tensor],
        affine: tuple[Tensor, Tensor],
    ) -> Tensor:
        """The same in one or two passes over memory."""
        if not self.training:
            place = x if self.may_overwrite else None
            return kernels.normalise(x, *statistics, *affine, self.eps, self.relu, place)
        if torch.is_grad_enabled():
            return moved_and_normalised(
                kernels, x, *affine, *statistics, self.alpha, self.eps, self.relu
            )
        output, _ = kernels.move_and_normalise(
            x, *statistics, *affine, self.alpha, self.eps, self.relu
        )
        return output

    def extra_repr(self) -> str:
        """For printing the network."""
        return f"{len(self.weight)}, alpha={self.alpha}, eps={self.eps}"
