"""What a stream will hold and when, known without reading an image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotta.datasets.base import Indices, Labels


@dataclass(frozen=True, eq=False)
class Stay:
    """Samples in the order of their arrival, mostly one visit to one domain.

    Attributes:
        visits: How often the whole order of domains was gone through before, from 0, (N,).
        domains: Indices into the stream's domains, (N,).
        severities: Of the corruption, (N,).
        indices: Positions in the domain, (N,).
        labels: Classes, (N,).
    """

    visits: NDArray[np.int64]
    domains: NDArray[np.int64]
    severities: NDArray[np.int64]
    indices: Indices
    labels: Labels

    def __len__(self) -> int:
        return len(self.indices)

    def take(self, positions: Indices | slice) -> "Stay":
        """The samples at these positions, in their order; one may come several times.

        Example:
            >>> whole_domain(visit=0, domain=3, severity=5, labels=np.array([7, 8])).take(
            ...     np.array([1, 1, 0])
            ... ).labels.tolist()
            [8, 8, 7]
        """
        return Stay(*(column[positions] for column in vars(self).values()))

    @staticmethod
    def joined(stays: Sequence["Stay"]) -> "Stay":
        """Stays one after the other, at least one."""
        columns = zip(*(vars(stay).values() for stay in stays), strict=True)
        return Stay(*(np.concatenate(column) for column in columns))


def whole_domain(visit: int, domain: int, severity: int, labels: Labels) -> Stay:
    """All samples of a domain in the order in which it holds them."""
    size = len(labels)
    visits, domains, severities = (
        np.full(size, value, np.int64) for value in (visit, domain, severity)
    )
    return Stay(visits, domains, severities, np.arange(size, dtype=np.int64), labels)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Label and domain of each sample in the order of arrival.

    Attributes:
        labels: Class indices, (N,).
        domains: Indices into ``domain_names``, (N,).
        domain_names: In the order of the visits.
        class_names: One per class.
        delta: Concentration of the label order; ``math.inf`` if independent.
        arrival: How the samples arrive, a name of :data:`rotta.streams.ARRIVALS`.
        severities: Of the corruption, (N,), where they are known.
    """

    labels: Labels
    domains: NDArray[np.int64]
    domain_names: tuple[str, ...]
    class_names: tuple[str, ...]
    delta: float
    arrival: str = "steady"
    severities: NDArray[np.int64] | None = None


def generator(seed: int, visit: int, domain: str) -> np.random.Generator:
    """The randomness of one stay.

    It is keyed by the *name* of the domain: the draw stays the same whichever domains come
    before it, so that two orders of domains differ in nothing else.

    Example:
        >>> a, b = generator(0, visit=0, domain="fog"), generator(0, visit=1, domain="fog")
        >>> bool(a.random() == b.random())
        False
    """
    key = (visit, *domain.encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
