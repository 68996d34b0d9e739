"""Source: the model as it is. What every other method is compared with."""

import torch
from torch import Tensor, nn


class Source(nn.Module):
    """Predict with the source network in evaluation mode; nothing adapts.

    Args:
        net: Takes RGB in [0, 1], (B, 3, H, W), and gives logits, (B, num_classes).

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
        >>> Source(net)(torch.zeros(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.eval()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), of images, (B, 3, H, W)."""
        logits: Tensor = self.net(x)
        return logits
