"""Source: the model as it is. What every other method is compared with."""

from typing import Unpack

from torch import Tensor, nn

from rotta.adapters.base import Adapter
from rotta.adapters.common import CommonOptions
from rotta.adapters.unchanged import SharedPass, UnchangedPass
from rotta.nn.surgery import copy_sharing_weights


class Source(Adapter):
    """Predict with the source network in evaluation mode; nothing adapts.

    Args:
        net: A classifier; it is not changed.
        num_classes: C, the number of its outputs.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
        >>> Source(net, num_classes=10)(torch.zeros(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    KEEPS_NOTHING = True

    unchanged: UnchangedPass | SharedPass

    def __init__(self, net: nn.Module, num_classes: int, **common: Unpack[CommonOptions]) -> None:
        super().__init__(net, num_classes, **common)
        self.net = copy_sharing_weights(net).eval()  # a copy has its own mode
        self.unchanged = UnchangedPass(self.net, num_classes, features=False)

    def infer(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes)."""
        return self.unchanged(x).logits
