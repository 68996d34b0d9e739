"""What a stream will hold and when, known without reading an image."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotta.datasets.base import Indices, Labels


@dataclass(frozen=True, eq=False)
class Stay:
    """One visit to one domain: all its samples, each once.

    Attributes:
        visit: How often the whole order was gone through before, from 0.
        domain: Index into the stream's domains.
        indices: Positions in the domain in the order of arrival, (N,).
        labels: Class of each arrival, (N,).
    """

    visit: int
    domain: int
    indices: Indices
    labels: Labels


@dataclass(frozen=True, eq=False)
class Timeline:
    """Label and domain of each sample in the order of arrival.

    Attributes:
        labels: Class indices, (N,).
        domains: Indices into ``domain_names``, (N,).
        domain_names: In the order of the visits.
        class_names: One per class.
        delta: Concentration of the label order; ``math.inf`` if independent.
    """

    labels: Labels
    domains: NDArray[np.int64]
    domain_names: tuple[str, ...]
    class_names: tuple[str, ...]
    delta: float


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
