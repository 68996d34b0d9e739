"""The memory banks of all streams: who is in them is decided on the host, for many at once.

The host needs the labels and entropies of the predictions for that, one transfer per call; images
stay on their device.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rotta.memory.cstu import timeliness
from rotta.memory.cstu_line import Floats, Ints
from rotta.pool.bank_images import BankImages, move_in
from rotta.pool.insertion import NOBODY, Places, Weights, insert_all, insert_one_each

_AS_DEAR = 3
"""Newcomers to many banks at once that cost as much time as one bank to itself."""


@dataclass(frozen=True)
class Newcomers:
    """Samples that arrive at one bank, in order."""

    row: int
    """Whose bank it is."""
    images: Tensor
    """(B, C, H, W)."""
    label: Ints
    """Predicted classes, (B,)."""
    uncertainty: Floats
    """Entropies of the predictions, (B,)."""

    def __len__(self) -> int:
        return len(self.label)

    def part(self, which: slice) -> "Newcomers":
        """Some of them."""
        label, uncertainty = self.label[which], self.uncertainty[which]
        return Newcomers(self.row, self.images[which], label, uncertainty)


@dataclass(frozen=True)
class Held:
    """What one bank holds, n samples."""

    images: Tensor
    """(n, C, H, W); (0,) before any came."""
    label: Tensor
    """(n,), int64."""
    arrived: Tensor
    """The clock when each came, (n,), int64."""
    uncertainty: Tensor
    """(n,), float64."""
    clock: int
    """Samples presented so far."""


class Banks:
    """A bank for each row, as :class:`~rotta.memory.cstu.CSTU` would be.

    Args:
        capacity: N, places in each.
        num_classes: C.
        lambda_t: Weight of timeliness in the score.
        lambda_u: Weight of uncertainty in the score.

    Example:
        >>> banks = Banks(capacity=4, num_classes=2, lambda_t=1.0, lambda_u=1.0)
        >>> banks.open(0)
        >>> label, uncertainty = np.array([0, 0, 0]), np.array([0.1, 0.5, 0.3])
        >>> banks.insert([Newcomers(0, torch.rand(3, 3, 8, 8), label, uncertainty)])
        >>> banks.ages(0).tolist()
        [3, 1]
    """

    def __init__(
        self, capacity: int, num_classes: int, *, lambda_t: float, lambda_u: float
    ) -> None:
        self.capacity = capacity
        self._weights = Weights(
            lambda_t=lambda_t,
            lambda_u=lambda_u / math.log(max(2, num_classes)),
            worst=math.log(num_classes),
            num_classes=num_classes,
        )
        self._places = Places.empty(0, capacity)
        self._images: dict[torch.Size, BankImages] = {}
        self._held: dict[int, Tensor] = {}  # images, (N, C, H, W), by row

    def open(self, row: int) -> None:
        """Begin an empty bank."""
        missing = row + 1 - len(self._places.clock)
        if missing > 0:
            self._places.grow(max(missing, len(self._places.clock) // 4))
        self.clear(row)

    def clear(self, row: int) -> None:
        """Forget what a bank holds and how long it has been filled."""
        self._places.clear(row)
        if row in self._held:
            bank = self._held.pop(row)
            room = self._images[bank.shape[1:]]
            room.give_back(bank)
            if not room.taken:
                del self._images[bank.shape[1:]]

    def size(self, row: int) -> int:
        """How many samples it holds."""
        return self._places.size(row)

    def ages(self, row: int) -> Ints:
        """Samples presented since each came, (n,)."""
        return self._places.ages(row)

    def insert(self, arriving: Sequence[Newcomers]) -> None:
        """Present samples to some banks, each named once."""
        images: dict[tuple[int, int], Tensor] = {}  # by bank and place; who comes later, stays
        for row, place, image in self._admitted(arriving):
            images[row, place] = image
        for newcomers in arriving:
            self._make_room(newcomers.row, newcomers.images)
        move_in([self._held[row][place] for row, place in images], list(images.values()))

    def images(self, row: int) -> Tensor:
        """What a bank holds, (n, C, H, W), in its place."""
        return self._held[row][: self.size(row)]

    def weights(self, rows: Sequence[int]) -> Tensor:
        """Timeliness of what some banks hold, which are of one size, (n, G), float64."""
        ages = torch.from_numpy(np.stack([self.ages(row) for row in rows], axis=1))
        return timeliness(ages.double(), self.capacity)

    def held(self, row: int) -> Held:
        """All of a bank; images and the rest are views."""
        own, some = self._places.of(row), slice(self.size(row))
        return Held(
            images=self._held[row][some] if row in self._held else torch.empty(0),
            label=torch.from_numpy(own.label[some]),
            arrived=torch.from_numpy(own.arrived[some]),
            uncertainty=torch.from_numpy(own.uncertainty[some]),
            clock=int(own.clock),
        )

    def put(self, row: int, held: Held, device: torch.device) -> None:
        """Replace all of a bank; its images go to a device."""
        self.clear(row)
        some = slice(len(held.label))
        own = self._places.of(row)
        own.label[some], own.arrived[some] = held.label.numpy(), held.arrived.numpy()
        own.uncertainty[some] = held.uncertainty.numpy()
        own.clock[...] = held.clock
        if len(held.label):
            self._make_room(row, held.images.to(device))
            self._held[row][some] = held.images

    def _admitted(self, arriving: Sequence[Newcomers]) -> Iterator[tuple[int, int, Tensor]]:
        """Those who get into a bank: row, place and image."""
        left, presented = list(arriving), 0
        while left:
            if max(len(n) for n in left) - presented > _AS_DEAR * len(left):
                for newcomers in left:
                    yield from self._admitted_to_one(newcomers.part(slice(presented, None)))
                return
            yield from self._admitted_of_turn(left, presented)
            presented += 1
            left = [newcomers for newcomers in left if len(newcomers) > presented]

    def _admitted_of_turn(
        self, arriving: Sequence[Newcomers], i: int
    ) -> Iterator[tuple[int, int, Tensor]]:
        """The i-th newcomer to each bank, in one go."""
        rows = np.array([newcomers.row for newcomers in arriving])
        label = np.array([newcomers.label[i] for newcomers in arriving])
        uncertainty = np.array([newcomers.uncertainty[i] for newcomers in arriving])
        place = insert_one_each(self._places, rows, label, uncertainty, self._weights)
        for newcomers, its_place in zip(arriving, place.tolist(), strict=True):
            if its_place != NOBODY:
                yield newcomers.row, its_place, newcomers.images[i]

    def _admitted_to_one(self, newcomers: Newcomers) -> Iterator[tuple[int, int, Tensor]]:
        """All newcomers to one bank."""
        row, by = newcomers.row, (newcomers.label, newcomers.uncertainty)
        for place, i in zip(*insert_all(self._places, row, *by, self._weights), strict=True):
            yield row, place, newcomers.images[i]

    def _make_room(self, row: int, images: Tensor) -> None:
        """Give a bank places for images like these, if it has none."""
        if row not in self._held:
            shape = images.shape[1:]
            if shape not in self._images:
                self._images[shape] = BankImages(self.capacity, images[0])
            self._held[row] = self._images[shape].take()
