"""One stream of a pool: where its numbers lie, and what is counted of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from rotta.guard import Event, Guard

_HALF_LIFE = 64  # predictions after which one counts half in what was predicted lately
_LARGE = 1e6


@dataclass
class Record:
    """What is counted of a stream; plain values, which are part of its state."""

    counts: list[float]
    """How often each class was predicted; a prediction counts half after 64 more."""
    unit: float = 1.0
    """What a prediction counts now: it grows, so that the others need not shrink one by one."""
    shape: tuple[int, ...] | None = None
    """Of its images, (C, H, W), once it has learnt from some."""
    frozen: bool = False
    requests: int = 0
    samples: int = 0
    updates: int = 0
    steps: int = 0
    """Of Adam, since it was last put back."""
    rate: float = 1.0
    """By which its learning rate is multiplied."""
    since_start: int = 0
    """Samples since it was last put back as a matter of course."""
    last_used: float = 0.0
    entropy: float | None = None

    @property
    def lately(self) -> list[float]:
        """How often each class was predicted, where the newest counts 1."""
        return [count / self.unit for count in self.counts]

    def note(self, label: Sequence[int], entropy: Sequence[float]) -> None:
        """Take in the predictions of a request: B classes, and B entropies."""
        self.entropy = sum(entropy) / len(entropy)
        self.unit *= 2 ** (len(label) / _HALF_LIFE)
        for each in label:
            self.counts[each] += self.unit
        if self.unit > _LARGE:
            self.counts, self.unit = self.lately, 1.0


@dataclass
class Stream:
    """A stream in memory."""

    row: int
    """Of the tables in which its numbers and its bank are."""
    generator: torch.Generator
    """Of its strong views."""
    guard: Guard | None
    record: Record = field(repr=False)

    @property
    def events(self) -> list[Event] | None:
        """What its guard did, if it has one; another list whenever there is news."""
        return None if self.guard is None else self.guard.events
