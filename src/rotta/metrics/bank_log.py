"""What a method's memory bank held, at chosen moments of the walk."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from rotta.kept import tensors_like, whole_numbers


class Memory(Protocol):
    """A memory that says what it holds."""

    @property
    def label(self) -> Tensor:
        """Predicted class of each place, (N,), int64; −1 where empty."""

    @property
    def age(self) -> Tensor:
        """Of what each place holds, (N,)."""


class BankLog:
    """Samples held of each class and their mean age.

    Args:
        num_classes: C.

    Attributes:
        samples: Samples seen when each note was taken.

    Example:
        >>> from rotta.memory.cstu import CSTU
        >>> bank, log = CSTU(capacity=4, num_classes=2), BankLog(num_classes=2)
        >>> bank.insert(torch.rand(3, 3, 8, 8), torch.tensor([0, 1, 0]), torch.zeros(3))
        >>> log.note(bank, samples=3)
        >>> log.samples, log.counts(), log.age()
        ([3], [[2, 1]], [2.0])
    """

    def __init__(self, num_classes: int) -> None:
        self._num_classes = num_classes
        self.samples: list[int] = []
        self._counts: list[Tensor] = []
        self._age: list[Tensor] = []

    def note(self, bank: Memory, samples: int) -> None:
        """Take down what the bank holds after that many samples."""
        held = bank.label >= 0
        counts = held.new_zeros(self._num_classes, dtype=torch.int64)
        counts.index_add_(0, bank.label.clamp(min=0), held.long())
        self.samples.append(samples)
        self._counts.append(counts)
        self._age.append((bank.age * held).sum() / held.sum().clamp(min=1))

    def counts(self) -> list[list[int]]:
        """Samples held of each class, (notes, C)."""
        return [counts.tolist() for counts in self._counts]

    def age(self) -> list[float]:
        """Mean age at each note; 0 for an empty bank."""
        return [float(age) for age in self._age]

    def state(self) -> dict[str, Any]:
        """All notes, for :meth:`restore`."""
        return {"samples": self.samples, "counts": self._counts, "age": self._age}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the notes of another."""
        samples = whole_numbers(state["samples"])
        counts = tensors_like(torch.empty(self._num_classes, dtype=torch.int64), state["counts"])
        age = tensors_like(torch.empty(()), state["age"])
        if not len(samples) == len(counts) == len(age):
            raise ValueError(f"{len(samples)} notes of {len(counts)} counts and {len(age)} ages")
        self.samples, self._counts, self._age = samples, counts, age
