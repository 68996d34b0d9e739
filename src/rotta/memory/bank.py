"""What every memory bank is: places for images, and how newcomers move into them."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

EMPTY = -1
"""The label of a place that holds nothing; also: nobody new came to a place."""


class Bank(nn.Module, ABC):
    """N places on the model's device; all of its state is buffers.

    Places fill in order and are never left empty: what is held lies in the first ``size()``
    places, so ``images[:size()]`` needs no copy.

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
        self._is_full = False  # as far as the host knows; once it is, it stays so
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

    def size(self) -> int:
        """How many places hold something; asks the device only until the bank is full."""
        if self._is_full:
            return self.capacity
        size = int((self.label >= 0).sum())
        self._is_full = size == self.capacity
        return size

    def __len__(self) -> int:
        return self.size()

    def make_room(self, x: Tensor) -> None:
        """Allocate the images on sight of the first batch."""
        if self.images.shape[1:] != x.shape[1:]:
            self.images = x.new_zeros(self.capacity, *x.shape[1:])

    def move_in(self, x: Tensor, place: Tensor, newcomer: Tensor) -> None:
        """Take over the images of those who came.

        Args:
            x: Of each newcomer, (B, 3, H, W).
            place: The places that change hands, (n,), on the host.
            newcomer: Which newcomer each goes to, (n,), on the host.
        """
        if len(place):
            # one by one: threads that share so little only wait for each other on a busy machine
            new = x.unbind()
            torch._foreach_copy_(
                [self.images[p] for p in place.tolist()], [new[i] for i in newcomer.tolist()]
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        self._is_full = False
        stored = state_dict.get(prefix + "images")
        if stored is not None and stored.shape != self.images.shape:
            self.images = self.images.new_zeros(stored.shape, dtype=stored.dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)
