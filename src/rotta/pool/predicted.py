"""What was predicted, until it is learnt from."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rotta.adapters.logits import entropy
from rotta.memory.cstu_line import Floats, Ints
from rotta.nn.to_host import ToHost
from rotta.pool.stream import Stream


class Seen:
    """Classes and entropies of what was predicted in one pass, on their way to the host.

    Args:
        logits: (ΣB, num_classes).
    """

    def __init__(self, logits: Tensor) -> None:
        both = torch.stack([logits.argmax(dim=1).double(), entropy(logits).double()])
        self._both = ToHost(both)

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


@dataclass(frozen=True)
class Predicted:
    """A request that was predicted, to be learnt from."""

    stream: Stream
    images: Tensor
    """(B, C, H, W)."""
    logits: Tensor
    """(B, num_classes), for the caller."""
    kept: Tensor
    """The same, for the guard: what callers do with theirs does not matter."""
    seen: Seen
    """Of all that was predicted in the same pass."""
    which: slice
    """Its own of them."""

    @property
    def label(self) -> Ints:
        """Predicted classes, (B,)."""
        return self.seen.label[self.which]

    @property
    def uncertainty(self) -> Floats:
        """Entropies, (B,)."""
        return self.seen.uncertainty[self.which]


def by_shape(predicted: Sequence[Predicted]) -> list[list[Predicted]]:
    """Those together whose images are of one shape."""
    alike: dict[torch.Size, list[Predicted]] = defaultdict(list)
    for each in predicted:
        alike[each.images.shape[1:]].append(each)
    return list(alike.values())
