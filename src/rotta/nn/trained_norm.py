"""What layers have in common that take the place of a trained BatchNorm layer."""

import torch
from torch import Tensor, nn

from rotta.nn.relu_norm import ReluNorm

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm


class TrainedNorm(ReluNorm):
    """Running statistics, γ and β of its own, copied from a trained layer.

    Args:
        running_mean: (C,).
        running_var: (C,).
        weight: γ, (C,).
        bias: β, (C,).
        eps: Added to variances.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, running_mean: Tensor, running_var: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> None:
        super().__init__()
        self.register_buffer("running_mean", running_mean.detach().clone())
        self.register_buffer("running_var", running_var.detach().clone())
        self.weight = nn.Parameter(weight.detach().clone())
        self.bias = nn.Parameter(bias.detach().clone())
        self.eps = float(eps)


def trained(bn: BatchNorm) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a layer has learnt: μ, σ², γ, β, each (C,); ones and zeros where it has no γ and β.

    Raises:
        ValueError: The layer keeps no running statistics, so there is nothing to start from.
    """
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(
            "a BatchNorm layer has no running statistics (track_running_stats=False), from which "
            "robust normalisation would start: use method='rotta' with robust_norm=False, or 'tent'"
        )
    weight = torch.ones_like(bn.running_mean) if bn.weight is None else bn.weight
    bias = torch.zeros_like(bn.running_mean) if bn.bias is None else bn.bias
    return bn.running_mean, bn.running_var, weight, bias
