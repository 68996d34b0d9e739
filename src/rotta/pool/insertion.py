"""Algorithm 1 of RoTTA for many banks at once: a newcomer to each, in a few array operations."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from rotta.memory import cstu_host
from rotta.memory.bank import EMPTY
from rotta.memory.cstu_line import Floats, Ints

_LABEL_BITS = 40  # labels stand above the arrivals, of which there are fewer than 2⁴⁰
Bools = NDArray[np.bool_]
NOBODY = -1
"""In place of a place: the newcomer was not let in."""


@dataclass(frozen=True)
class Weights:
    """Of Eq. 6, and what they depend on."""

    lambda_t: float
    lambda_u: float
    """λ_u / log C."""
    worst: float
    """U of a newcomer whose own is no number."""
    num_classes: int


@dataclass
class Places:
    """What is known of the N places of G banks, on the host; changed by those who move in."""

    label: Ints
    """Predicted class of each place, (G, N); −1 where empty."""
    arrived: Ints
    """The clock when each came, (G, N)."""
    uncertainty: Floats
    """(G, N)."""
    clock: Ints
    """Samples presented so far, (G,)."""

    @classmethod
    def empty(cls, banks: int, capacity: int) -> Self:
        """G banks of N places that hold nothing."""
        size = banks, capacity
        return cls(
            label=np.full(size, EMPTY),
            arrived=np.zeros(size, dtype=np.int64),
            uncertainty=np.zeros(size),
            clock=np.zeros(banks, dtype=np.int64),
        )

    def grow(self, banks: int) -> None:
        """Add empty banks."""
        more = self.empty(banks, self.label.shape[1])
        for name, values in vars(self).items():
            setattr(self, name, np.concatenate([values, getattr(more, name)]))

    def clear(self, bank: int) -> None:
        """As it was at the start."""
        fresh = self.empty(1, self.label.shape[1])
        for name, values in vars(self).items():
            values[bank] = getattr(fresh, name)[0]

    def copied(self, banks: Ints) -> Self:
        """Copies of some banks, for :meth:`put_back`."""
        return type(self)(**{name: values[banks] for name, values in vars(self).items()})

    def put_back(self, banks: Ints, copies: Self) -> None:
        """Let them be what they were."""
        for name, values in vars(self).items():
            values[banks] = getattr(copies, name)

    def of(self, bank: int) -> Self:
        """One bank, in its place: (N,) each, and a clock of ()."""
        clock = self.clock[bank, ...]
        return type(self)(self.label[bank], self.arrived[bank], self.uncertainty[bank], clock)

    def ages(self, bank: int) -> Ints:
        """Samples presented since each came, of what a bank holds, (n,)."""
        held = self.label[bank] != EMPTY
        ages: Ints = self.clock[bank] - self.arrived[bank][held]
        return ages

    def size(self, bank: int) -> int:
        """How many places of a bank hold something: the first ones."""
        return int(np.count_nonzero(self.label[bank] != EMPTY))


def insert_one_each(
    places: Places, banks: Ints, label: Ints, uncertainty: Floats, weights: Weights
) -> Ints:
    """Present one newcomer to each of some banks, as :class:`~rotta.memory.cstu.CSTU` does.

    Args:
        places: Of all banks; those that change hands are brought up to date.
        banks: Which, each once, (G,).
        label: Predicted class of each newcomer, (G,).
        uncertainty: Entropy of its prediction, (G,).
        weights: Of the score.

    Returns:
        The place that each newcomer got, (G,); −1 for those who were not let in.

    Example:
        >>> places, weights = Places.empty(2, 4), Weights(1.0, 1.0, 1.0, num_classes=2)
        >>> both, label, uncertainty = np.arange(2), np.array([0, 1]), np.array([0.1, 0.2])
        >>> insert_one_each(places, both, label, uncertainty, weights).tolist()
        [0, 0]
    """
    held_label, arrived = places.label[banks], places.arrived[banks]
    clock = places.clock[banks]
    uncertainty = np.where(np.isfinite(uncertainty), uncertainty, weights.worst)
    capacity = held_label.shape[1]
    of_its_class = held_label == label[:, None]
    class_is_full = of_its_class.sum(axis=1) * weights.num_classes >= capacity
    held = (held_label != EMPTY).sum(axis=1)
    adds = ~class_is_full & (held < capacity)
    searched = np.where(class_is_full[:, None], of_its_class, False)
    crowded = ~class_is_full & ~adds
    if crowded.any():
        searched[crowded] = _in_largest_class(held_label[crowded], weights.num_classes)
    # Eq. 6, in the order of operations of a single bank: ties must be the same
    score = np.exp((arrived - clock[:, None]) / capacity)
    score += 1
    np.divide(weights.lambda_t, score, out=score)
    score += places.uncertainty[banks] * weights.lambda_u
    score[~searched] = -np.inf
    highest = score.max(axis=1)
    replaces = ~adds & (highest > weights.lambda_t / 2 + uncertainty * weights.lambda_u)
    # among equals the last in (class, arrival)
    rank = np.where(score == highest[:, None], held_label << _LABEL_BITS | arrived, NOBODY)
    place = np.where(adds, held, np.where(replaces, rank.argmax(axis=1), NOBODY))
    lets_in = place != NOBODY
    at = banks[lets_in], place[lets_in]
    places.label[at], places.arrived[at] = label[lets_in], clock[lets_in]
    places.uncertainty[at] = uncertainty[lets_in]
    places.clock[banks] += 1
    return place


def insert_all(
    places: Places, bank: int, label: Ints, uncertainty: Floats, weights: Weights
) -> tuple[Ints, Ints]:
    """Present several newcomers to one bank.

    Args:
        places: Of all banks; those that change hands are brought up to date.
        bank: Which.
        label: Predicted class of each newcomer, (B,).
        uncertainty: Entropy of its prediction, (B,).
        weights: Of the score.

    Returns:
        The places that change hands, (n,), and which newcomer each goes to, (n,).
    """
    own = places.of(bank)
    of_score = [weights.lambda_t, weights.lambda_u, weights.worst]
    place, newcomer = cstu_host.decide(
        torch.from_numpy(own.label),
        torch.from_numpy(own.arrived),
        torch.from_numpy(own.uncertainty),
        torch.from_numpy(own.clock),
        torch.from_numpy(label),
        torch.from_numpy(uncertainty),
        torch.tensor(of_score, dtype=torch.float64),
        weights.num_classes,
    )
    return place.numpy(), newcomer.numpy()


def _in_largest_class(label: Ints, num_classes: int) -> Bools:
    """Which places of full banks, (G, N), hold one of the classes of which the bank holds most."""
    banks = np.arange(len(label))[:, None]
    count = np.bincount((banks * num_classes + label).ravel(), minlength=len(label) * num_classes)
    count = count.reshape(len(label), num_classes)
    largest: Bools = count[banks, label] == count.max(axis=1, keepdims=True)
    return largest
