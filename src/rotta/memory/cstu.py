"""Category-balanced sampling with timeliness and uncertainty (RoTTA, Algorithm 1), as tensors."""

import math

import torch
from torch import Tensor

from rotta.memory import cstu_cuda, cstu_host
from rotta.memory.bank import Bank


def timeliness(age: Tensor, capacity: int) -> Tensor:
    """E(A) = exp(−A/N) / (1 + exp(−A/N)), the weight of a sample in the loss (Eq. 8).

    Example:
        >>> timeliness(torch.tensor([0.0, 64.0]), 64).tolist()
        [0.5, 0.2689414322376251]
    """
    return torch.sigmoid(-age / capacity)


class CSTU(Bank):
    """A bank of N samples that stays balanced over the predicted classes.

    Inserting a batch gives the bank that inserting its samples one by one gives. Everything is a
    buffer on the model's device. Who goes where is decided for the whole batch at once: by one
    kernel on CUDA, elsewhere on the host.

    Args:
        capacity: N.
        num_classes: C. A class may hold samples while it has fewer than N / C.
        lambda_t: Weight of timeliness in the score.
        lambda_u: Weight of uncertainty in the score.

    Attributes:
        uncertainty: Entropy of its prediction, (N,), float64.

    Example:
        >>> bank = CSTU(capacity=4, num_classes=2)
        >>> label, uncertainty = torch.tensor([0, 0, 0]), torch.tensor([0.1, 0.5, 0.3])
        >>> bank.insert(torch.rand(3, 3, 8, 8), label, uncertainty)
        >>> bank.label.tolist(), bank.age.tolist()
        ([0, 0, -1, -1], [3, 1, 0, 0])
    """

    uncertainty: Tensor
    _weights: Tensor

    def __init__(
        self, capacity: int, num_classes: int, *, lambda_t: float = 1.0, lambda_u: float = 1.0
    ) -> None:
        super().__init__(capacity)
        self.num_classes = num_classes
        self.register_buffer("uncertainty", torch.zeros(capacity, dtype=torch.float64))
        # of Eq. 6; a prediction that is no number is as uncertain as can be
        weights = [lambda_t, lambda_u / math.log(max(2, num_classes)), math.log(num_classes)]
        weights_double = torch.tensor(weights, dtype=torch.float64)
        self.register_buffer("_weights", weights_double, persistent=False)

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:
        """Present samples in order, as Algorithm 1 does."""
        self.make_room(x)
        held = self.label, self.arrived, self.uncertainty, self.clock
        newcomers = label, uncertainty
        if cstu_cuda.usable(self.label):
            came_from = cstu_cuda.decide(*held, *newcomers, self._weights, self.num_classes)
            cstu_cuda.move_in(self.images, x, came_from)
        else:
            moves = cstu_host.decide(*held, *newcomers, self._weights, self.num_classes)
            self.move_in(x, *moves)
