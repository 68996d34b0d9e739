"""Instance-aware batch normalisation (NOTE, Gong et al., NeurIPS 2022, Sec. 3.1)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from rotta.nn.affine import OwnGradients, own_kernels_serve, scaled_and_shifted
from rotta.nn.moments import channel_moments, instance_moments
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

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, …)."""
        values = math.prod(input.shape[2:])
        if values == 1:
            return self.activated(self._all_by_the_batch(input))
        own_var, own_mean = instance_moments(input)
        count = len(input) * values
        batch = self._moved(own_mean, own_var, count) if self.training else self._running()
        own = own_mean, own_var * (values / (values - 1))
        output: Tensor = _InstanceAware.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, *own, *batch, self.k, self.eps, self.training, self.relu
        )
        return output

    def _all_by_the_batch(self, x: Tensor) -> Tensor:
        """Instances of one value, which have no variance of their own, (B, C, 1, …)."""
        count = len(x)
        if not self.training or count == 1:
            return F.batch_norm(x, *self._running(), self.weight, self.bias, eps=self.eps)
        # the framework normalises by the biased variance, we by c times that:
        # γ / √(c·σ² + ε) = (γ / √c) / √(σ² + ε / c)
        c = count / (count - 1)
        weight = self.weight / math.sqrt(c)
        return F.batch_norm(
            x, *self._running(), weight, self.bias, True, self.momentum, self.eps / c
        )

    def _moved(self, own_mean: Tensor, own_var: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The batch's mean and unbiased variance, (C,) both; the running ones follow.

        Args:
            own_mean: Of its instances, (B, C, 1, …).
            own_var: Biased, (B, C, 1, …).
            count: Values in a channel of the batch.
        """
        between, mean = channel_moments(own_mean)
        var = (own_var.mean(dim=0).flatten() + between) * (count / (count - 1))
        torch._foreach_lerp_(self._running(), [mean, var], self.momentum)
        return mean, var

    def _running(self) -> tuple[Tensor, Tensor]:
        return self.running_mean, self.running_var


class _InstanceAware(Function):
    """Normalise each instance of each channel: y = γ·r·(x − m) + β with r = 1/√(v + ε).

    An instance of n values has the mean μ and the unbiased variance u, its batch M and V. Soft
    shrinkage of μ − M by s = k·√((V + ε)/n) is the same as to take for m what in μ ± s is next to
    M; and v is what in u ± t is next to V, t = k·(V + ε)·√(2/(n−1)). So v is never negative.

    Let a = sgn(m − M) and b = sgn(v − V), which are 0 where chance explains it all. With the sums
    G = Σ ∂L/∂y and H = Σ ∂L/∂y·(x − m) over the values of an instance, and Σ over instances,

        ∂L/∂γ = Σ r·H,   ∂L/∂β = Σ G,   ∂L/∂m = −γ·r·G,   ∂L/∂v = −γ·r³·H/2.

    As m is M or μ − a·s, and v is V or u − b·t,

        ∂L/∂μ = |a|·∂L/∂m,   ∂L/∂u = |b|·∂L/∂v,   ∂L/∂M = Σ (1 − |a|)·∂L/∂m,
        ∂L/∂V = Σ (1 − |b| − b·dt)·∂L/∂v − a·ds·∂L/∂m

    with ds = ∂s/∂V = k / (2·√(n·(V + ε))) and dt = ∂t/∂V = k·√(2/(n−1)). Where M and V are those
    of the batch, of N values, and not constants,

        ∂L/∂x = γ·r·∂L/∂y + ∂L/∂μ/n + 2·(x − μ)/(n−1)·∂L/∂u + ∂L/∂M/N + 2·(x − M)/(N−1)·∂L/∂V,

    which is γ·r·∂L/∂y + p·x + q with p and q per instance and channel. So each way takes a few
    passes over (B, C, …); all else is (B, C). Where a ReLU follows, ∂L/∂y is 0 wherever it let
    nothing through.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        own_mean: Tensor,
        own_var: Tensor,
        batch_mean: Tensor,
        batch_var: Tensor,
        k: float,
        eps: float,
        of_batch: bool,
        relu: bool,
    ) -> Tensor:
        shape = [1, -1] + [1] * (x.ndim - 2)
        weight, bias = weight.view(shape), bias.view(shape)
        batch_mean, batch_var = batch_mean.view(shape), batch_var.view(shape)
        values, spread = math.prod(x.shape[2:]), batch_var + eps
        mean = _nearest(batch_mean, own_mean, k * (spread / values).sqrt())
        var = _nearest(batch_var, own_var, spread * (k * math.sqrt(2 / (values - 1))))
        inverse = torch.rsqrt(var + eps)
        scale = weight * inverse
        shift = torch.addcmul(bias, mean, scale, value=-1)
        output = scaled_and_shifted(x, scale.flatten(1), shift.flatten(1), relu=relu)
        numbers = own_mean, batch_mean, batch_var, mean, var, inverse, shift
        by_kernels = own_kernels_serve(x, scale, shift)
        after_relu = (output,) if relu and not by_kernels else ()
        ctx.save_for_backward(x, weight, *numbers, *after_relu)
        ctx.k, ctx.eps, ctx.of_batch = k, eps, of_batch  # type: ignore[attr-defined]
        ctx.relu, ctx.by_kernels = relu, by_kernels  # type: ignore[attr-defined]
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *numbers = ctx.saved_tensors
        own_mean, batch_mean, batch_var, mean, var, inverse, shift, *after_relu = numbers
        scale, values = weight * inverse, math.prod(x.shape[2:])
        gradients = OwnGradients(grad, x, scale, shift, ctx.relu, ctx.by_kernels, *after_relu)
        h, g = gradients.sums(mean)
        r_h = h * inverse
        of_affine = r_h.sum(dim=0).flatten(), g.sum(dim=0).flatten()
        if not ctx.needs_input_grad[0]:
            return None, *of_affine, *[None] * 8
        of_mean, of_var = -scale * g, scale * inverse * r_h * -0.5
        a, b = (mean - batch_mean).sign(), (var - batch_var).sign()
        of_own_mean, of_own_var = a.abs() * of_mean, b.abs() * of_var
        p = of_own_var * (2 / (values - 1))
        q = torch.addcmul(of_own_mean / values, p, own_mean, value=-1)
        if ctx.of_batch:
            count = len(x) * values
            ds = ctx.k / 2 * torch.rsqrt((batch_var + ctx.eps) * values)
            dt = ctx.k * math.sqrt(2 / (values - 1))
            of_batch_mean = (of_mean - of_own_mean).sum(dim=0, keepdim=True)
            of_batch_var = of_var - of_own_var - b * of_var * dt - a * of_mean * ds
            common = of_batch_var.sum(dim=0, keepdim=True) * (2 / (count - 1))
            p = p + common
            q = q + (of_batch_mean / count - common * batch_mean)
        return gradients.of_x(p, q), *of_affine, *[None] * 8


def _nearest(to: Tensor, around: Tensor, reach: Tensor) -> Tensor:
    """What in ``around`` ± ``reach`` is nearest to ``to``; ``to`` itself if it is in there."""
    return to.clamp(around - reach, around + reach)
