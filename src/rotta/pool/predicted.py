"""What was predicted, until it is learnt from."""

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from rotta.adapters.logits import entropy
from rotta.guard import shows_something
from rotta.memory.cstu_line import Floats, Ints
from rotta.nn.to_host import ToHost
from rotta.pool.stream import Stream


class Pass:
    """All that was predicted in one pass; classes and entropies are on their way to the host.

    Args:
        images: (ΣB, C, H, W), request after request.
        logits: (ΣB, num_classes), for the callers.
        guarded: Whether guards will look at the logits.

    Attributes:
        shape: Of the images, (C, H, W).
        kept: The logits, for guards: what callers do with theirs does not matter.
    """

    def __init__(self, images: Tensor, logits: Tensor, *, guarded: bool) -> None:
        self.images, self.logits = images, logits
        self.shape = images.shape[1:]
        self.kept = logits.clone() if guarded else logits
        both = torch.stack([logits.argmax(dim=1).double(), entropy(logits).double()])
        self._both = ToHost(both)
        self._kept = ToHost(self.kept) if guarded else None
        self._shown = ToHost(shows_something(images)) if guarded else None

    @cached_property
    def label(self) -> Ints:
        """Predicted classes, (ΣB,)."""
        label: Ints = self._both.read()[0].long().numpy()
        return label

    @cached_property
    def uncertainty(self) -> Floats:
        """Entropies, (ΣB,)."""
        uncertainty: Floats = self._both.read()[1].numpy()
        return uncertainty

    @cached_property
    def kept_on_host(self) -> Tensor:
        """The logits for guards that only ask whether they are finite: no launch for each."""
        assert self._kept is not None, "nobody said that guards would look"
        return self._kept.read()

    @cached_property
    def shown(self) -> Tensor:
        """Which images show something, for guards, (ΣB,), on the host."""
        assert self._shown is not None, "nobody said that guards would look"
        return self._shown.read()

    @cached_property
    def listed(self) -> tuple[list[int], list[float]]:
        """Both as lists, of which a stream's part is read sooner than of arrays."""
        return self.label.tolist(), self.uncertainty.tolist()


class Predicted(NamedTuple):
    """A request that was predicted, to be learnt from: some of what was predicted in a pass."""

    stream: Stream
    of: Pass
    start: int
    stop: int

    @property
    def size(self) -> int:
        """B."""
        return self.stop - self.start

    @property
    def images(self) -> Tensor:
        """(B, C, H, W)."""
        return self.of.images[self.start : self.stop]

    @property
    def kept(self) -> Tensor:
        """Logits for a guard, (B, num_classes)."""
        return self.of.kept[self.start : self.stop]

    @property
    def kept_on_host(self) -> Tensor:
        """The same on the host."""
        return self.of.kept_on_host[self.start : self.stop]

    def is_worth_learning(self) -> bool:
        """Whether enough of it shows something, for streams that have a guard."""
        guard, own = self.stream.guard, slice(self.start, self.stop)
        return guard is None or guard.worth_learning(self.of.shown[own], self.of.kept_on_host[own])

    def note(self) -> None:
        """Take it up into the stream's record; waits for the device."""
        label, uncertainty = self.of.listed
        own = slice(self.start, self.stop)
        self.stream.record.note(label[own], uncertainty[own])
