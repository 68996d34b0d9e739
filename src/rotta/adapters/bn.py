"""BN: test-time batch normalisation (Nado et al., 2020; Schneider et al., NeurIPS 2020)."""

from typing import Unpack

from torch import Tensor, nn

from rotta.adapters.base import Adapter
from rotta.adapters.common import CommonOptions
from rotta.nn.batch_stats import on_batch_statistics
from rotta.nn.surgery import has_batch_norm


class BN(Adapter):
    """Normalise every batch with its own statistics; nothing is trained or remembered.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        num_classes: C, the number of its outputs.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has no BatchNorm layer.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 10))
        >>> BN(net, num_classes=10)(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    KEEPS_NOTHING = True

    def __init__(self, net: nn.Module, num_classes: int, **common: Unpack[CommonOptions]) -> None:
        super().__init__(net, num_classes, **common)
        if not has_batch_norm(net):
            raise ValueError(
                "the network has no BatchNorm layer, so BN has no statistics to replace: use "
                "method='lame', which adapts the predictions alone, or 'cotta', which trains all"
            )
        self.net = on_batch_statistics(net)

    def infer(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), by the statistics of this batch."""
        return self.logits(self.net, x)
