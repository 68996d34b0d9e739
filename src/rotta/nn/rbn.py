"""Robust batch normalisation (RoTTA, Sec. 3.2): global statistics that the memory bank moves."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from rotta.nn.moments import channel_moments
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
        self.alpha = alpha

    @classmethod
    def from_batchnorm(cls, bn: BatchNorm, alpha: float = 0.05) -> "RobustBatchNorm":
        """Take over a trained layer's statistics, γ, β, device, dtype and mode.

        A layer without γ and β gets ones and zeros: RoTTA has something to train then.

        Raises:
            ValueError: The layer keeps no running statistics, so there is nothing to start from.
        """
        return cls(*trained(bn), alpha=alpha, eps=bn.eps).train(bn.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, …)."""
        if not self.training:
            return torch.nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        var, mean = channel_moments(x)  # Eqs. 1 and 2
        self.running_mean.lerp_(mean, self.alpha)  # Eq. 4
        self.running_var.lerp_(var, self.alpha)  # Eq. 5
        # cloned: the next update moves the stored statistics before this one's backward may run
        output: Tensor = _Normalise.apply(  # type: ignore[no-untyped-call]
            x,
            self.weight,
            self.bias,
            mean,
            self.running_mean.clone(),
            self.running_var.clone(),
            self.alpha,
            self.eps,
        )
        return output

    def extra_repr(self) -> str:
        """For printing the network."""
        return f"{len(self.weight)}, alpha={self.alpha}, eps={self.eps}"


class _Normalise(Function):
    """Eq. 3 with mixed statistics μ = (1-α)·μ_g + α·μ_b, σ² likewise; closed-form backward.

    With r = 1/√(σ² + ε), x̂ = (x − μ)·r, g = γ·∂L/∂y and N values per channel,

        ∂L/∂x = r·(g − α/N·Σg − α/N·r·(x − μ_b)·Σ(g·x̂)),   ∂L/∂γ = Σ(∂L/∂y·x̂),   ∂L/∂β = Σ∂L/∂y

    since μ_b and σ²_b enter with weight α. At α = 1 this is ordinary batch normalisation.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        batch_mean: Tensor,
        mean: Tensor,
        var: Tensor,
        alpha: float,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, batch_mean, mean, var)
        ctx.alpha, ctx.eps = alpha, eps  # type: ignore[attr-defined]
        return torch.nn.functional.batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, batch_mean, mean, var = ctx.saved_tensors
        axes = [axis for axis in range(x.ndim) if axis != 1]
        shape = [1, -1] + [1] * (x.ndim - 2)
        scale = torch.rsqrt(var + ctx.eps)
        grad_bias = grad.sum(axes)
        grad_weight = (grad * x).sum(axes).sub(mean * grad_bias).mul(scale)
        if not ctx.needs_input_grad[0]:
            return None, grad_weight, grad_bias, None, None, None, None, None
        # ∂L/∂x = a·∂L/∂y + b·x + c, with a, b, c per channel
        share = ctx.alpha * x.shape[1] / x.numel()
        a = weight * scale
        b = -share * scale.square() * weight * grad_weight
        c = -share * a * grad_bias - b * batch_mean
        grad_x = grad * a.view(shape) + (x * b.view(shape) + c.view(shape))
        return grad_x, grad_weight, grad_bias, None, None, None, None, None
