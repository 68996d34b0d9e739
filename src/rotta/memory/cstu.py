"""Category-balanced sampling with timeliness and uncertainty (RoTTA, Algorithm 1), as tensors."""

import math

import torch
from torch import Tensor

from rotta.memory import cstu_cuda, cstu_host
from rotta.memory.bank import Bank, fetch


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

    def __init__(
        self, capacity: int, num_classes: int, *, lambda_t: float = 1.0, lambda_u: float = 1.0
    ) -> None:
        super().__init__(capacity)
        self.num_classes = num_classes
        self.lambda_t = lambda_t
        self.lambda_u = lambda_u
        self.register_buffer("uncertainty", torch.zeros(capacity, dtype=torch.float64))

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:
        """Present samples in order, as Algorithm 1 does."""
        self.make_room(x)
        # a prediction that is no number is as uncertain as can be
        uncertainty = uncertainty.double().nan_to_num(nan=math.log(self.num_classes))
        decide = cstu_cuda.decide if cstu_cuda.usable(self.label) else cstu_host.decide
        # Eq. 6's second term; the first depends on the age, so it is left to the decision
        weight = self.lambda_u / math.log(max(2, self.num_classes))
        came_from = decide(
            self.label,
            self.arrived,
            self.clock,
            self.uncertainty * weight,
            label,
            uncertainty * weight,
            num_classes=self.num_classes,
            lambda_t=self.lambda_t,
        )
        self.clock += len(x)
        fetch(self.uncertainty, uncertainty, came_from)
        self.move_in(x, came_from)
