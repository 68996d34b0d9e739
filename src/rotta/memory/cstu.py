"""Category-balanced sampling with timeliness and uncertainty (RoTTA, Algorithm 1), as tensors."""

import math
from typing import Any

import torch
from torch import Tensor, nn

EMPTY = -1
"""The label of a place that holds nothing."""


def timeliness(age: Tensor, capacity: int) -> Tensor:
    """E(A) = exp(−A/N) / (1 + exp(−A/N)), the weight of a sample in the loss (Eq. 8).

    Example:
        >>> timeliness(torch.tensor([0.0, 64.0]), 64).tolist()
        [0.5, 0.2689414322376251]
    """
    return torch.sigmoid(-age / capacity)


class CSTU(nn.Module):
    """A bank of N samples that stays balanced over the predicted classes.

    Inserting a batch gives the bank that inserting its samples one by one gives. Everything is a
    buffer on the model's device; nothing is read back to the host.

    Args:
        capacity: N.
        num_classes: C. A class may hold samples while it has fewer than N / C.
        lambda_t: Weight of timeliness in the score.
        lambda_u: Weight of uncertainty in the score.

    Attributes:
        images: (N, 3, H, W); allocated by the first batch.
        label: Predicted class of each place, (N,), int64; −1 where empty.
        age: Samples presented since it came, (N,), int64.
        uncertainty: Entropy of its prediction, (N,), float64.
        arrival: When it came, (N,), int64; settles ties.

    Example:
        >>> bank = CSTU(capacity=4, num_classes=2)
        >>> label, uncertainty = torch.tensor([0, 0, 0]), torch.tensor([0.1, 0.5, 0.3])
        >>> bank.insert(torch.rand(3, 3, 8, 8), label, uncertainty)
        >>> bank.label.tolist(), bank.age.tolist()
        ([0, 0, -1, -1], [3, 1, 0, 0])
    """

    images: Tensor
    label: Tensor
    age: Tensor
    uncertainty: Tensor
    arrival: Tensor
    count: Tensor

    def __init__(
        self, capacity: int, num_classes: int, *, lambda_t: float = 1.0, lambda_u: float = 1.0
    ) -> None:
        super().__init__()
        self.capacity = capacity
        self.num_classes = num_classes
        self.lambda_t = lambda_t
        self.lambda_u = lambda_u
        self.register_buffer("images", torch.empty(capacity, 0))
        self.register_buffer("label", torch.full((capacity,), EMPTY))
        self.register_buffer("age", torch.zeros(capacity, dtype=torch.int64))
        self.register_buffer("uncertainty", torch.zeros(capacity, dtype=torch.float64))
        self.register_buffer("arrival", torch.zeros(capacity, dtype=torch.int64))
        self.register_buffer("count", torch.zeros(num_classes, dtype=torch.int64))

    def score(self, age: Tensor, uncertainty: Tensor) -> Tensor:
        """H of Eq. 6, in float64: in float32 the age term saturates near age 1,000."""
        timely = self.lambda_t * torch.sigmoid(age.double() / self.capacity)
        return timely + self.lambda_u * uncertainty.double() / math.log(max(2, self.num_classes))

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:
        """Present samples in order.

        Args:
            x: Images, (B, 3, H, W).
            label: Predicted classes, (B,), int64.
            uncertainty: Entropies of the predictions, (B,).
        """
        if self.images.shape[1:] != x.shape[1:]:
            self.images = x.new_zeros(self.capacity, *x.shape[1:])
        fresh_score = self.score(torch.zeros_like(label), uncertainty)
        place = torch.arange(self.capacity, device=x.device)
        came_from = torch.full_like(self.label, EMPTY)
        arrival = self.arrival.max() + 1
        for i in range(len(x)):
            chosen = self._place_for(label[i], fresh_score[i]) == place
            self.count.index_add_(0, self.label.clamp(min=0), -(chosen & (self.label >= 0)).long())
            self.count.index_add_(0, label[i : i + 1], chosen.any().long()[None])
            came_from.masked_fill_(chosen, i)
            self.label = torch.where(chosen, label[i], self.label)
            self.uncertainty = torch.where(chosen, uncertainty[i].double(), self.uncertainty)
            self.arrival = torch.where(chosen, arrival + i, self.arrival)
            self.age = torch.where(chosen, 0, self.age) + (self.label >= 0)
        new = came_from >= 0
        chosen_images = x.index_select(0, came_from.clamp(min=0)).to(self.images.dtype)
        self.images = torch.where(new.view(-1, *[1] * (x.ndim - 1)), chosen_images, self.images)

    def _place_for(self, label: Tensor, fresh_score: Tensor) -> Tensor:
        """Where a new sample goes: a place's number, or −1 to drop it (lines 5 to 20)."""
        held = self.label >= 0
        count_of_own = self.count[self.label.clamp(min=0)]
        class_is_full = self.count[label] >= self.capacity / self.num_classes
        most = torch.where(held, count_of_own, -1).max()
        search = held & torch.where(class_is_full, self.label == label, count_of_own == most)
        score = torch.where(search, self.score(self.age, self.uncertainty), -torch.inf)
        # the highest score; among equals the later in (class, arrival)
        last = search & (score == score.max())
        last &= self.label == torch.where(last, self.label, EMPTY).max()
        candidate = torch.where(last, self.arrival, EMPTY).argmax()
        replaced = torch.where(score[candidate] > fresh_score, candidate, EMPTY)
        add = ~class_is_full & ~held.all()
        return torch.where(add, held.long().argmin(), replaced)

    def __len__(self) -> int:
        """How many samples it holds; asks the device."""
        return int((self.label >= 0).sum())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = state_dict.get(prefix + "images")
        if stored is not None and stored.shape != self.images.shape:
            self.images = self.images.new_zeros(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)
