"""Normalisation by statistics that hold a share of the batch's: closed-form gradients."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable

from rotta.nn.affine import scaled_and_shifted
from rotta.nn.own_kernels import NormKernels
from rotta.nn.relu_norm import before_relu


def mixed_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    batch_mean: Tensor,
    mixed: Tensor,
    alpha: float,
    eps: float,
    relu: bool = False,
) -> Tensor:
    """Eq. 3 of RoTTA with μ = (1-α)·μ_g + α·μ_b, σ² likewise, on any device.

    Args:
        x: (B, C, …).
        weight: γ, (C,).
        bias: β, (C,).
        batch_mean: μ_b, (C,).
        mixed: μ and σ², (2, C); they are functions of ``x``, and count as such.
        alpha: α.
        eps: ε.
        relu: Whether a ReLU follows.
    """
    output: Tensor = _MixedNorm.apply(  # type: ignore[no-untyped-call]
        x, weight, bias, batch_mean, mixed, alpha, eps, relu
    )
    return output


def moved_and_normalised(
    kernels: NormKernels,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    alpha: float,
    eps: float,
    relu: bool,
) -> Tensor:
    """Move the statistics and normalise with them, by kernels of our own.

    Args:
        kernels: Those that :func:`rotta.nn.own_kernels.kernels_for` names.
        x: (B, C, …).
        weight: γ, (C,).
        bias: β, (C,).
        running_mean: μ_g, (C,); changed.
        running_var: σ²_g, (C,); changed.
        alpha: α.
        eps: ε.
        relu: Whether a ReLU follows.
    """
    output: Tensor = _MovedAndNormalised.apply(  # type: ignore[no-untyped-call]
        kernels, x, weight, bias, running_mean, running_var, alpha, eps, relu
    )
    return output


class _MixedNorm(Function):
    """With r = 1/√(σ² + ε), x̂ = (x − μ)·r, g = γ·∂L/∂y and N values per channel,

        ∂L/∂x = r·(g − α/N·Σg − α/N·r·(x − μ_b)·Σ(g·x̂)),   ∂L/∂γ = Σ(∂L/∂y·x̂),   ∂L/∂β = Σ∂L/∂y

    since μ_b and σ²_b enter with weight α. At α = 1 this is ordinary batch normalisation. Where a
    ReLU follows, ∂L/∂y is 0 wherever it let nothing through.

    The sums are one call of BatchNorm's own kernel: elementwise operations are several times
    slower.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        batch_mean: Tensor,
        mixed: Tensor,
        alpha: float,
        eps: float,
        relu: bool,
    ) -> Tensor:
        mean, var = mixed.unbind()
        output = F.batch_norm(x, mean, var, weight, bias, eps=eps)
        after_relu = (output.relu_(),) if relu else ()
        ctx.save_for_backward(x, weight, batch_mean, mixed, *after_relu)
        ctx.alpha, ctx.eps = alpha, eps  # type: ignore[attr-defined]
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, batch_mean, mixed, *after_relu = ctx.saved_tensors
        grad = before_relu(grad, x, *after_relu)
        mean, var = mixed.unbind()
        scale = torch.rsqrt(var + ctx.eps)
        _, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
            grad, x, weight, mean, var, mean, scale, False, ctx.eps, [False, True, True]
        )
        if not ctx.needs_input_grad[0]:
            return None, grad_weight, grad_bias, *[None] * 5
        # ∂L/∂x = a·∂L/∂y + b·x + c, with a, b, c per channel
        share = ctx.alpha * x.shape[1] / x.numel()
        a = weight * scale
        b = -share * scale.square() * weight * grad_weight
        c = -share * a * grad_bias - b * batch_mean
        grad_x = scaled_and_shifted(x, b, c)
        grad_x.addcmul_(grad, a.view([1, -1] + [1] * (x.ndim - 2)))
        return grad_x, grad_weight, grad_bias, *[None] * 5


class _MovedAndNormalised(Function):
    """The same gradients, by kernels that also know of the ReLU."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        kernels: NormKernels,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        alpha: float,
        eps: float,
        relu: bool,
    ) -> Tensor:
        output, saved = kernels.move_and_normalise(
            x, running_mean, running_var, weight, bias, alpha, eps, relu
        )
        ctx.save_for_backward(x, weight, bias, saved)
        ctx.share, ctx.relu = alpha * x.shape[1] / x.numel(), relu  # type: ignore[attr-defined]
        ctx.kernels = kernels  # type: ignore[attr-defined]
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, saved = ctx.saved_tensors
        of_x = ctx.needs_input_grad[1]
        gradients = ctx.kernels.backward(grad, x, weight, bias, saved, ctx.share, ctx.relu, of_x)
        return None, *gradients, None, None, None, None, None
