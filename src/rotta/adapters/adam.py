"""The optimiser of every method that learns."""

from collections.abc import Iterable

import torch
from torch import nn


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Adam with its usual constants, all parameters in one kernel."""
    return torch.optim.Adam(list(parameters), lr=lr, betas=(0.9, 0.999), fused=True)
