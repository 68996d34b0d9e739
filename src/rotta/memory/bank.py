"""What every memory bank is: places for images, and how newcomers move into them."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

EMPTY = -1
"""The label of a place that holds nothing; also: nobody new came to a place."""


class Bank(nn.Module, ABC):
    """N places on the model's device; all of its state is buffers.

    Args:
        capacity: N.

    Attributes:
        images: (N, 3, H, W); allocated by the first batch.
        label: Predicted class of each place, (N,), int64; −1 where empty.
        arrived: The clock when each came, (N,), int64.
        clock: Samples presented so far, (), int64.
    """

    images: Tensor
    label: Tensor
    arrived: Tensor
    clock: Tensor

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.register_buffer("images", torch.empty(capacity, 0))
        self.register_buffer("label", torch.full((capacity,), EMPTY))
        self.register_buffer("arrived", torch.zeros(capacity, dtype=torch.int64))
        self.register_buffer("clock", torch.zeros((), dtype=torch.int64))

    @abstractmethod
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:
        """Present samples in order.

        Args:
            x: Images, (B, 3, H, W).
            label: Predicted classes, (B,), int64.
            uncertainty: Entropies of the predictions, (B,).
        """

    @property
    def age(self) -> Tensor:
        """Samples presented since each came, (N,), int64; 0 where empty.

        All age by one per sample presented, kept or dropped, so the clock tells.
        """
        return torch.where(self.label >= 0, self.clock - self.arrived, 0)

    def held(self) -> Tensor:
        """The places that hold something, (n,); asks the device how many."""
        return (self.label >= 0).nonzero().squeeze(1)

    def __len__(self) -> int:
        return len(self.held())

    def make_room(self, x: Tensor) -> None:
        """Allocate the images on sight of the first batch."""
        if self.images.shape[1:] != x.shape[1:]:
            self.images = x.new_zeros(self.capacity, *x.shape[1:])

    def move_in(self, x: Tensor, came_from: Tensor) -> None:
        """Take over the images of those who came; no more than B places are touched.

        Args:
            x: Of each newcomer, (B, 3, H, W).
            came_from: Which newcomer moved into each place, (N,); −1 for none.
        """
        newcomer, place = came_from.topk(min(len(x), self.capacity))
        came = (newcomer >= 0).view(-1, *[1] * (x.ndim - 1))
        moved = x[newcomer.clamp(min=0)].to(self.images.dtype)
        self.images[place] = torch.where(came, moved, self.images[place])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        stored = state_dict.get(prefix + "images")
        if stored is not None and stored.shape != self.images.shape:
            self.images = self.images.new_zeros(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def fetch(held: Tensor, new: Tensor, came_from: Tensor) -> None:
    """Take over a value per sample where somebody new came.

    Args:
        held: Of each place, (N,); changed in place.
        new: Of each newcomer, (B,).
        came_from: Which newcomer moved into each place, (N,); −1 for none.
    """
    held.copy_(torch.where(came_from >= 0, new[came_from.clamp(min=0)], held))
