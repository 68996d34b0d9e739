"""The plainest memory: the last N samples, as they came."""

import torch
from torch import Tensor, nn

from rotta.memory.cstu import EMPTY


class Recent(nn.Module):
    """A ring of the last N samples; every age is 0. What RoTTA is compared with in its ablation.

    Args:
        capacity: N.

    Example:
        >>> bank = Recent(capacity=2)
        >>> bank.insert(torch.rand(3, 3, 8, 8), torch.tensor([5, 6, 7]), torch.zeros(3))
        >>> sorted(bank.label.tolist())
        [6, 7]
    """

    images: Tensor
    label: Tensor
    age: Tensor
    seen: Tensor

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.register_buffer("images", torch.empty(capacity, 0))
        self.register_buffer("label", torch.full((capacity,), EMPTY))
        self.register_buffer("age", torch.zeros(capacity, dtype=torch.int64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:  # noqa: ARG002 (part of the interface)
        """Keep the samples, (B, 3, H, W), with their predicted classes, (B,)."""
        if self.images.shape[1:] != x.shape[1:]:
            self.images = x.new_zeros(self.capacity, *x.shape[1:])
        kept = x[-self.capacity :]
        first = self.seen + (len(x) - len(kept))
        place = (first + torch.arange(len(kept), device=x.device)) % self.capacity
        self.images[place] = kept
        self.label[place] = label[-self.capacity :]
        self.seen += len(x)
