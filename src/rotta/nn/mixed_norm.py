"""Normalisation by statistics that hold a share of the batch's: one fused pass each way."""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx


class MixedNorm(Function):
    """Eq. 3 of RoTTA with μ = (1-α)·μ_g + α·μ_b, σ² likewise; closed-form backward.

    With r = 1/√(σ² + ε), x̂ = (x − μ)·r, g = γ·∂L/∂y and N values per channel,

        ∂L/∂x = r·(g − α/N·Σg − α/N·r·(x − μ_b)·Σ(g·x̂)),   ∂L/∂γ = Σ(∂L/∂y·x̂),   ∂L/∂β = Σ∂L/∂y

    since μ_b and σ²_b enter with weight α. At α = 1 this is ordinary batch normalisation.

    The sums and the rest are one call each of the framework's own kernels: on CUDA those that
    SyncBatchNorm is made of, on CPUs those of BatchNorm. Elementwise operations are four times
    slower.
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
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, batch_mean, mean, var = ctx.saved_tensors
        backward = _cuda_backward if x.is_cuda else _host_backward
        share = ctx.alpha * x.shape[1] / x.numel()
        of_x = ctx.needs_input_grad[0]
        gradients = backward(grad, x, weight, batch_mean, mean, var, share, ctx.eps, of_x)
        return *gradients, None, None, None, None, None


Gradients = tuple[Tensor | None, Tensor, Tensor]


def _host_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch_mean: Tensor,
    mean: Tensor,
    var: Tensor,
    share: float,
    eps: float,
    of_x: bool,
) -> Gradients:
    """∂L/∂x, if wanted, ∂L/∂γ and ∂L/∂β; ``share`` is α/N."""
    _, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, mean, var, None, None, False, eps, [False, True, True]
    )
    if not of_x:
        return None, grad_weight, grad_bias
    # ∂L/∂x = a·∂L/∂y + b·x + c, with a, b, c per channel
    scale = torch.rsqrt(var + eps)
    a = weight * scale
    b = -share * scale.square() * weight * grad_weight
    c = -share * a * grad_bias - b * batch_mean
    # b·x + c as a batch norm: a fused pass, where broadcasting would take two
    grad_x = F.batch_norm(x, torch.zeros_like(b), torch.ones_like(b), b, c, eps=0.0)
    grad_x.addcmul_(grad, a.view([1, -1] + [1] * (x.ndim - 2)))
    return grad_x, grad_weight, grad_bias


def _cuda_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    batch_mean: Tensor,
    mean: Tensor,
    var: Tensor,
    share: float,
    eps: float,
    of_x: bool,
) -> Gradients:
    """As :func:`_host_backward`."""
    scale = torch.rsqrt(var + eps)
    total, product, grad_weight, grad_bias = torch.batch_norm_backward_reduce(
        grad, x, mean, scale, weight, True, True, True
    )
    if not of_x:
        return None, grad_weight, grad_bias
    # it divides the sums by a count: they bring α/N along, so that the count is one
    total, product = torch._foreach_mul([total, product], share)
    grad_x = torch.batch_norm_backward_elemt(
        grad, x, batch_mean, scale, weight, total, product, _one(x.device)
    )
    return grad_x, grad_weight, grad_bias


@cache
def _one(device: torch.device) -> Tensor:
    return torch.ones(1, dtype=torch.int32, device=device)
