"""The optimiser of every method that learns."""

from collections.abc import Iterable

import torch
from torch import nn


def adam(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Adam:
    """Adam with its usual constants, all parameters in one kernel.

    Its step counter is on the device, so that a step can be part of a CUDA graph.
    """
    trained = list(parameters)
    on_cuda = all(p.is_cuda for p in trained)
    return torch.optim.Adam(trained, lr=lr, betas=(0.9, 0.999), fused=True, capturable=on_cuda)
