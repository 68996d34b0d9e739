"""The memory banks of all streams: who is in them is decided on the host, for many at once.

The host needs the labels and entropies of the predictions for that, one transfer per call; images
stay on their device.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rotta.memory.cstu import timeliness
from rotta.memory.cstu_line import Floats, Ints
from rotta.pool.bank_images import BankImages
from rotta.pool.insertion import NOBODY, Places, Weights, insert_all, insert_one_each

_AS_DEAR = 3
"""Newcomers to many banks at once that cost as much time as one bank to itself."""


@dataclass(frozen=True)
class Newcomers:
    """Samples that arrive at some banks, images of one shape; those for one bank in order."""

    rows: Ints
    """Whose banks they are, each once, (L,)."""
    starts: Ints
    """Where those for each bank begin among the samples below, (L,)."""
    sizes: Ints
    """How many they are, at least 1, (L,)."""
    images: Tensor
    """(M, C, H, W)."""
    label: Ints
    """Predicted classes, (M,)."""
    uncertainty: Floats
    """Entropies of the predictions, (M,)."""

    def first(self, count: Ints) -> "Newcomers":
        """The first few for each bank, (L,)."""
        return replace(self, sizes=count)

    def later(self, presented: Ints | int) -> "Newcomers":
        """Without the first few for each bank, and without banks that have no more."""
        some = self.sizes > presented
        starts, sizes = (self.starts + presented)[some], (self.sizes - presented)[some]
        return replace(self, rows=self.rows[some], starts=starts, sizes=sizes)


class Admitted(NamedTuple):
    """Who got into a bank."""

    row: Ints
    """Of the bank, (n,)."""
    place: Ints
    """Within it, (n,)."""
    which: Ints
    """Of the newcomers, (n,)."""


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
        >>> row, start, size = np.array([0]), np.array([0]), np.array([3])
        >>> banks.insert(Newcomers(row, start, size, torch.rand(3, 3, 8, 8), label, uncertainty))
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
        self._shapes: dict[int, torch.Size] = {}  # of the images of each row that has any
        self._banks = np.empty(0, dtype=np.int64)  # of each row among those of its shape

    def open(self, row: int) -> None:
        """Begin an empty bank."""
        missing = row + 1 - len(self._places.clock)
        if missing > 0:
            more = max(missing, len(self._places.clock) // 4)
            self._places.grow(more)
            self._banks = np.append(self._banks, np.full(more, NOBODY))
        self.clear(row)

    def clear(self, row: int) -> None:
        """Forget what a bank holds and how long it has been filled."""
        self._places.clear(row)
        shape = self._shapes.pop(row, None)
        if shape is not None:
            room = self._images[shape]
            room.give_back(int(self._banks[row]))
            self._banks[row] = NOBODY
            if not room.taken:
                del self._images[shape]

    def size(self, row: int) -> int:
        """How many samples it holds."""
        return self._places.size(row)

    def ages(self, row: int) -> Ints:
        """Samples presented since each came, (n,)."""
        return self._places.ages(row)

    def insert(self, arriving: Newcomers) -> None:
        """Present samples to some banks."""
        for row in arriving.rows[self._banks[arriving.rows] == NOBODY].tolist():
            self._make_room(row, arriving.images)
        before = self._places.copied(arriving.rows)
        try:
            self._insert(arriving)
        except BaseException:  # out of memory: places without their images would be another's
            self._places.put_back(arriving.rows, before)
            raise

    def images(self, row: int) -> Tensor:
        """What a bank holds, (n, C, H, W), in its place."""
        return self._whole(row)[: self.size(row)]

    def weights(self, rows: Sequence[int]) -> Tensor:
        """Timeliness of what some banks hold, which are of one size, (n, G), float64."""
        ages = torch.from_numpy(np.stack([self.ages(row) for row in rows], axis=1))
        return timeliness(ages.double(), self.capacity)

    def held(self, row: int) -> Held:
        """All of a bank; images and the rest are views."""
        own, some = self._places.of(row), slice(self.size(row))
        return Held(
            images=self._whole(row)[some] if row in self._shapes else torch.empty(0),
            label=torch.from_numpy(own.label[some]),
            arrived=torch.from_numpy(own.arrived[some]),
            uncertainty=torch.from_numpy(own.uncertainty[some]),
            clock=int(own.clock),
        )

    def put(self, row: int, held: Held, device: torch.device) -> None:
        """Replace all of a bank, or nothing if there is no memory; its images go to a device."""
        images, some = held.images.to(device), slice(len(held.label))
        if not len(images):
            self.clear(row)
        else:
            room, bank = self._room_for(images)
            room.of(bank)[some] = images
            self.clear(row)
            self._images[images.shape[1:]] = room
            self._banks[row], self._shapes[row] = bank, images.shape[1:]
        own = self._places.of(row)
        own.label[some], own.arrived[some] = held.label.numpy(), held.arrived.numpy()
        own.uncertainty[some] = held.uncertainty.numpy()
        own.clock[...] = held.clock

    def _insert(self, arriving: Newcomers) -> None:
        parts = list(self._admitted(arriving))
        admitted = Admitted(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        if len(admitted.row):
            row, place, which = _last_of_each(admitted, self.capacity)
            room = self._images[arriving.images.shape[1:]]
            room.move_in(self._banks[row], place, arriving.images, which)

    def _admitted(self, arriving: Newcomers) -> Iterator[Admitted]:
        """Those who get into a bank, whoever comes later to a place after who came before."""
        while len(arriving.rows):
            if arriving.sizes.max() > _AS_DEAR * len(arriving.rows):
                yield from (self._admitted_to_one(arriving, i) for i in range(len(arriving.rows)))
                return
            yield self._first_admitted(arriving)
            arriving = arriving.later(1)

    def _first_admitted(self, arriving: Newcomers) -> Admitted:
        """Of the first newcomer to each bank, in one go."""
        rows, which = arriving.rows, arriving.starts
        label, uncertainty = arriving.label[which], arriving.uncertainty[which]
        place = insert_one_each(self._places, rows, label, uncertainty, self._weights)
        lets_in = place != NOBODY
        return Admitted(rows[lets_in], place[lets_in], which[lets_in])

    def _admitted_to_one(self, arriving: Newcomers, i: int) -> Admitted:
        """Of all newcomers to the i-th bank."""
        row, start = int(arriving.rows[i]), int(arriving.starts[i])
        own = slice(start, start + int(arriving.sizes[i]))
        by = arriving.label[own], arriving.uncertainty[own]
        place, which = insert_all(self._places, row, *by, self._weights)
        return Admitted(np.full_like(place, row), place, which + start)

    def _make_room(self, row: int, images: Tensor) -> None:
        """Give a bank places for images like these, if it has none."""
        if row not in self._shapes:
            shape = images.shape[1:]
            self._images[shape], self._banks[row] = self._room_for(images)
            self._shapes[row] = shape

    def _room_for(self, images: Tensor) -> tuple[BankImages, int]:
        """Where images like these are, and a bank that is free there."""
        room = self._images.get(images.shape[1:]) or BankImages(self.capacity, images[0])
        return room, room.take()

    def _whole(self, row: int) -> Tensor:
        """All places of a bank, (N, C, H, W)."""
        return self._images[self._shapes[row]].of(int(self._banks[row]))


def _last_of_each(admitted: Admitted, capacity: int) -> Admitted:
    """Those who are still there: of all who came to a place, the last."""
    place = admitted.row * capacity + admitted.place
    _, from_the_end = np.unique(place[::-1], return_index=True)
    last = len(place) - 1 - from_the_end
    return Admitted(admitted.row[last], admitted.place[last], admitted.which[last])
