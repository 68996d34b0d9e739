"""The plainest memory: the last N samples, as they came."""

import torch
from torch import Tensor

from rotta.memory.bank import Bank


class Recent(Bank):
    """A ring of the last N samples. What RoTTA is compared with in its ablation.

    Args:
        capacity: N.

    Example:
        >>> bank = Recent(capacity=2)
        >>> bank.insert(torch.rand(3, 3, 8, 8), torch.tensor([5, 6, 7]), torch.zeros(3))
        >>> sorted(bank.label.tolist())
        [6, 7]
    """

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:  # noqa: ARG002 (part of the interface)
        """Keep the samples, (B, 3, H, W), with their predicted classes, (B,)."""
        self.make_room(x)
        kept = min(len(x), self.capacity)
        time = self.clock + torch.arange(len(x) - kept, len(x), device=x.device)
        place = time % self.capacity
        self.images[place] = x[-kept:]
        self.label[place] = label[-kept:]
        self.arrived[place] = time
        self.clock += len(x)
