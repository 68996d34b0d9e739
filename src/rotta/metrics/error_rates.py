"""How often a method was wrong in each of several groups: domains, or classes."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rotta.kept import take_over


class ErrorRates:
    """Counts of all and of the wrong per group, kept on the device until they are asked for.

    Args:
        names: Of the groups.
        device: Where the samples are.

    Example:
        >>> errors = ErrorRates(["fog", "snow", "frost"])
        >>> errors.add(torch.tensor([0, 0, 1]), torch.tensor([True, False, False]))
        >>> errors.percent(), errors.average()
        ({'fog': 50.0, 'snow': 0.0}, 25.0)
    """

    def __init__(self, names: Sequence[str], device: torch.device | str = "cpu") -> None:
        self.names = tuple(names)
        self._seen = torch.zeros(len(self.names), dtype=torch.int64, device=device)
        self._wrong = torch.zeros_like(self._seen)

    def add(self, group: Tensor, wrong: Tensor) -> None:
        """Count samples: the index of each one's group, (B,), int64, and if it is wrong, (B,)."""
        self._seen.index_add_(0, group, torch.ones_like(group))
        self._wrong.index_add_(0, group, wrong.to(torch.int64))

    def percent(self) -> dict[str, float]:
        """Error of each group that was reached."""
        counts = zip(self.names, self._wrong.tolist(), self._seen.tolist(), strict=True)
        return {name: 100.0 * wrong / seen for name, wrong, seen in counts if seen}

    def average(self) -> float:
        """Mean of the groups' errors in percent, as the paper's tables state it for domains."""
        errors = self.percent().values()
        return sum(errors) / len(errors) if errors else float("nan")

    def state(self) -> dict[str, Tensor]:
        """The counts, for :meth:`restore`."""
        return {"seen": self._seen, "wrong": self._wrong}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the counts of others over the same groups."""
        take_over(self._seen, state["seen"])
        take_over(self._wrong, state["wrong"])

    def join(self, state: Mapping[str, Tensor]) -> None:
        """Add the counts of others over the same groups."""
        self._seen += state["seen"]
        self._wrong += state["wrong"]
