"""How often a method was wrong each time that the domains came round."""

from collections.abc import Mapping

import torch
from torch import Tensor

from rotta.kept import take_over


class VisitErrors:
    """Counts of all and of the wrong per visit and domain, on the device until they are asked for.

    Args:
        visits: How often the domains come round.
        domains: How many there are.
        device: Where the samples are.

    Example:
        >>> errors = VisitErrors(visits=2, domains=2)
        >>> visit, domain = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 0])
        >>> errors.add(visit, domain, torch.tensor([True, False, False, True]))
        >>> errors.percent()
        [25.0, 100.0]
    """

    def __init__(self, visits: int, domains: int, device: torch.device | str = "cpu") -> None:
        self._seen = torch.zeros(visits, domains, dtype=torch.int64, device=device)
        self._wrong = torch.zeros_like(self._seen)

    def add(self, visit: Tensor, domain: Tensor, wrong: Tensor) -> None:
        """Count samples: each one's visit and domain, (B,), int64, and if it is wrong, (B,)."""
        place = visit * self._seen.shape[1] + domain
        self._seen.view(-1).index_add_(0, place, torch.ones_like(place))
        self._wrong.view(-1).index_add_(0, place, wrong.to(torch.int64))

    def percent(self) -> list[float]:
        """Of each visit that was begun, the mean error of the domains that it reached."""
        errors = (
            [100.0 * wrong / seen for wrong, seen in zip(*counts, strict=True) if seen]
            for counts in zip(self._wrong.tolist(), self._seen.tolist(), strict=True)
        )
        return [sum(reached) / len(reached) for reached in errors if reached]

    def state(self) -> dict[str, Tensor]:
        """The counts, for :meth:`restore`."""
        return {"seen": self._seen, "wrong": self._wrong}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the counts of others over the same visits and domains."""
        take_over(self._seen, state["seen"])
        take_over(self._wrong, state["wrong"])

    def join(self, state: Mapping[str, Tensor]) -> None:
        """Add the counts of others over the same visits and domains."""
        self._seen += state["seen"]
        self._wrong += state["wrong"]
