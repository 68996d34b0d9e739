"""What is told about a walk: where it is, and what became of it."""

from dataclasses import dataclass

from rotta.results import SeedResult


@dataclass(frozen=True)
class Look:
    """Where a walk is."""

    label: str
    seed: int
    batches: int
    """Done so far."""
    total: int
    error: float
    """So far, in percent."""
    seconds: float
    """Since its start; of one in company, what it would have taken alone."""
    speed: float = 0.0
    """Batches per second of all processes that work on it, company counted in; 0 while unknown."""


@dataclass(frozen=True)
class Finished:
    """A walk that came to its end."""

    label: str
    seed: int
    seconds: float
    """It took; if it was in company, what it would have taken alone."""
    result: SeedResult


@dataclass(frozen=True)
class Failed:
    """A walk on which the method raised, or the process died."""

    label: str
    seed: int
    reason: str
    traceback: str
