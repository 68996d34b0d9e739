"""How often a method was wrong: in each domain, and over all."""

from collections.abc import Sequence

import torch

from rotta.evaluate import Step


class ErrorByDomain:
    """Counts of right and wrong per domain, kept on the device until they are asked for.

    Args:
        domains: Names, in the order of the stream.
        device: Where the steps are.
    """

    def __init__(self, domains: Sequence[str], device: torch.device | str = "cpu") -> None:
        self.domains = tuple(domains)
        self._seen = torch.zeros(len(self.domains), dtype=torch.int64, device=device)
        self._wrong = torch.zeros_like(self._seen)

    def add(self, step: Step) -> None:
        """Count one step."""
        ones = torch.ones_like(step.batch.domain)
        self._seen.index_add_(0, step.batch.domain, ones)
        self._wrong.index_add_(0, step.batch.domain, step.wrong.to(torch.int64))

    def per_domain(self) -> dict[str, float]:
        """Error in percent of each domain that was reached."""
        counts = zip(self.domains, self._wrong.tolist(), self._seen.tolist(), strict=True)
        return {name: 100.0 * wrong / seen for name, wrong, seen in counts if seen}

    def average(self) -> float:
        """Mean of the domains' errors in percent, as the paper's tables state it."""
        errors = self.per_domain().values()
        return sum(errors) / len(errors) if errors else float("nan")
