"""PL: pseudo-labels (Lee, ICML workshops 2013) on the statistics of the batch."""

import math
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.adapters.adam import adam, descend
from rotta.adapters.base import Adapter
from rotta.adapters.checks import check_between
from rotta.adapters.common import CommonOptions
from rotta.nn.batch_stats import trainable_on_batch_statistics


class PL(Adapter):
    """Learn the labels that the model itself gives: cross entropy to the arg-max of the same pass.

    Every batch is normalised with its own statistics and gives one step; γ and β are trained. The
    outputs before the step are the predictions.

    Args:
        net: A classifier with normalisation layers; it is not changed.
        num_classes: C, the number of its outputs.
        lr: Learning rate of Adam.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has no normalisation layer with γ and β.

    Example:
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 10))
        >>> PL(net, num_classes=10)(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    STATE = ("optimiser",)
    LEARNS_FROM_ITS_PREDICTION = True
    PASSES = 2

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        lr: float = 1e-3,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(net, num_classes, **common)
        check_between(0, math.inf, lr=lr)
        self.net, trained = trainable_on_batch_statistics(net)
        self.optimiser = adam(trained, lr)

    def infer(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), by the statistics of this batch."""
        return self.logits(self.net, x)

    def learn(self, _: Tensor, logits: Tensor) -> None:
        """One step on what was predicted."""
        with torch.enable_grad():
            loss = F.cross_entropy(logits, logits.argmax(dim=1))
        descend(loss, self.optimiser)
