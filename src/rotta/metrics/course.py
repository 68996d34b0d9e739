"""How error, certainty and the predicted classes develop along the stream."""

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from rotta.evaluate import Step
from rotta.kept import take_over, whole_number, whole_numbers

MOST_WINDOWS = 120
"""Enough for a curve, and little to store."""


def batches_per_window(batches: int) -> int:
    """So many that a walk of that many batches has at most :data:`MOST_WINDOWS` windows.

    Example:
        >>> batches_per_window(120), batches_per_window(121)
        (1, 2)
    """
    return max(1, math.ceil(batches / MOST_WINDOWS))


class Course:
    """Error, mean entropy and balance of the predicted classes in windows of whole batches.

    Args:
        num_classes: C.
        batches: Of the whole walk; they are shared out over at most :data:`MOST_WINDOWS` windows.
        device: Where the steps are.
        first_batch: Where the first step is, if it is not the beginning: that of a window.

    Example:
        >>> from types import SimpleNamespace
        >>> batch = SimpleNamespace(y=torch.tensor([0, 1]))
        >>> course = Course(num_classes=2, batches=1)
        >>> course.add(Step(batch, torch.tensor([[9.0, 0.0], [9.0, 0.0]])))
        >>> course.samples, course.error(), course.balance()
        ([2], [50.0], [0.0])
    """

    def __init__(
        self,
        num_classes: int,
        batches: int,
        device: torch.device | str = "cpu",
        first_batch: int = 0,
    ) -> None:
        self._batches = batches
        self._batches_per_window = batches_per_window(batches)
        self._windows_before, inside = divmod(first_batch, self._batches_per_window)
        assert inside == 0, "the sums of a window cannot be put together from two"
        self._batches_done = first_batch
        self._sizes: list[int] = [0] * self._windows_before
        windows = math.ceil(batches / self._batches_per_window)
        self._wrong = torch.zeros(windows, dtype=torch.float64, device=device)
        self._entropy = torch.zeros(windows, dtype=torch.float64, device=device)
        self._predicted = torch.zeros(windows, num_classes, dtype=torch.float64, device=device)

    @property
    def samples(self) -> list[int]:
        """Samples seen at the end of each window that was begun."""
        return list(accumulate(self._sizes))

    @property
    def at_the_end_of_a_window(self) -> bool:
        """Whether the step just added was the last of its window."""
        done = self._batches_done
        return done % self._batches_per_window == 0 or done == self._batches

    def add(self, step: Step) -> None:
        """Count one step."""
        window = self._batches_done // self._batches_per_window
        if window == len(self._sizes):
            self._sizes.append(0)
        self._sizes[window] += len(step.batch.y)
        self._batches_done += 1
        self._wrong[window] += step.wrong.sum()
        self._entropy[window] += _entropy(step.logits).sum()
        ones = torch.ones_like(step.predicted, dtype=torch.float64)
        self._predicted[window].index_add_(0, step.predicted, ones)

    def error(self) -> list[float]:
        """Of each window, in percent."""
        return [100.0 * mean for mean in self._means(self._wrong)]

    def entropy(self) -> list[float]:
        """Mean of each window's predictions, in nats."""
        return self._means(self._entropy)

    def balance(self) -> list[float]:
        """Entropy of each window's histogram of predicted classes, as a share of log C."""
        counts = self._predicted[: len(self._sizes)]
        entropy = torch.special.entr(counts / counts.sum(dim=1, keepdim=True)).sum(dim=1)
        most = math.log(max(2, counts.shape[1]))
        balance: list[float] = (entropy / most).clamp(0, 1).tolist()
        return balance

    def state(self) -> dict[str, Any]:
        """What was counted, for :meth:`restore`."""
        return {
            "batches_done": self._batches_done,
            "sizes": self._sizes,
            "wrong": self._wrong,
            "entropy": self._entropy,
            "predicted": self._predicted,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what another counted on the same walk."""
        done, sizes = whole_number(state["batches_done"]), whole_numbers(state["sizes"])
        windows = math.ceil(done / self._batches_per_window)
        if done > self._batches or len(sizes) != windows or 0 in sizes[self._windows_before :]:
            raise ValueError(f"windows of {sizes} samples after {done} of {self._batches} batches")
        self._batches_done, self._sizes = done, sizes
        take_over(self._wrong, state["wrong"])
        take_over(self._entropy, state["entropy"])
        take_over(self._predicted, state["predicted"])

    def join(self, state: Mapping[str, Any]) -> None:
        """Add what another counted that began in the window after the last one here."""
        assert not any(state["sizes"][: len(self._sizes)]), "windows come one after the other"
        self._batches_done = state["batches_done"]
        self._sizes += state["sizes"][len(self._sizes) :]
        self._wrong += state["wrong"]
        self._entropy += state["entropy"]
        self._predicted += state["predicted"]

    def _means(self, sums: Tensor) -> list[float]:
        totals = sums[: len(self._sizes)].tolist()
        return [total / size for total, size in zip(totals, self._sizes, strict=True)]


def _entropy(logits: Tensor) -> Tensor:
    """Of each prediction, in nats, (B,). One that is not a number says nothing: log C."""
    entropy: Tensor = torch.special.entr(logits.double().softmax(dim=1)).sum(dim=1)
    return entropy.nan_to_num(nan=math.log(logits.shape[1]))
