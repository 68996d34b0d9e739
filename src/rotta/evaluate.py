"""The one loop: predict, score, continue."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from rotta.streams import Batch


@dataclass(frozen=True, eq=False)
class Step:
    """One batch and what the method said about it."""

    batch: Batch
    logits: Tensor
    """(B, num_classes), without their history."""

    @cached_property
    def predicted(self) -> Tensor:
        """Class indices, int64, (B,)."""
        return self.logits.argmax(dim=1)

    @cached_property
    def wrong(self) -> Tensor:
        """Which predictions are wrong, bool, (B,)."""
        return self.predicted != self.batch.y


def evaluate(method: Callable[[Tensor], Tensor], stream: Iterable[Batch]) -> Iterator[Step]:
    """Show a method the stream, batch by batch, and yield each prediction with its batch.

    A generator, so that whoever draws it out decides what happens in between: a progress bar, a
    plot, a checkpoint. The method gets images only. Where an episode begins (stationary settings),
    it is reset first; one without ``reset``, such as a bare network, is used as it is.

    Args:
        method: From images (B, 3, H, W) to logits (B, num_classes).
        stream: Batches on the method's device.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> batch = SimpleNamespace(x=torch.eye(2), y=torch.tensor([0, 0]), restart=False)
        >>> [step.wrong.tolist() for step in evaluate(lambda x: x, [batch])]
        [[False, True]]
    """
    for batch in stream:
        if batch.restart and hasattr(method, "reset"):
            method.reset()
        yield Step(batch, method(batch.x).detach())
