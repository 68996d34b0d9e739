"""Curves of a run's methods: means over the seeds, with what the seeds span."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotta.report.names import emphasised, method_name
from rotta.results import Result, SeedResult

Floats = NDArray[np.float64]

Course = tuple[Sequence[int], Sequence[float]]
"""Samples seen, and a value at each."""

_COLOURS = 10  # as many as the page's style sheet has
_OWN_COLOUR = ("rotta", "source", "bn", "pl", "tent", "lame", "cotta", "note")


@dataclass(frozen=True, eq=False)
class Series:
    """One method's curve, (W,) each; NaN where there is nothing to draw."""

    name: str
    colour: int
    """A number of the page's style sheet."""
    strong: bool
    """Whether to bring it forward."""
    mean: Floats
    low: Floats
    high: Floats


def colours(labels: Sequence[str]) -> dict[str, int]:
    """A colour for each method: the known ones have their own in every run.

    Example:
        >>> colours(["note:lr=0.001", "rotta", "bn"])
        {'note:lr=0.001': 8, 'rotta': 0, 'bn': 2}
    """
    taken = {label: _OWN_COLOUR.index(label) for label in labels if label in _OWN_COLOUR}
    # colours that no method owns come first, so that a variant seldom looks like another method
    free = sorted(set(range(_COLOURS)) - set(taken.values()), key=lambda c: c < len(_OWN_COLOUR))
    others = [label for label in labels if label not in taken]
    given = {label: free[i % len(free)] for i, label in enumerate(others)}
    return {label: (taken | given)[label] for label in labels}


def positions(result: Result) -> Floats:
    """Samples seen at the end of each window, (W,), as in the first walk."""
    windows = (seed.windows for method in result.methods.values() for seed in method.seeds.values())
    first = next(windows, None)
    return np.asarray(first.samples if first else [], dtype=np.float64)


def series(result: Result, pick: Callable[[SeedResult], Course | None]) -> Iterator[Series]:
    """The curves at :func:`positions`, for each method that has one.

    Args:
        result: A run.
        pick: From what a seed scored to the course of something, or none.
    """
    at = positions(result)
    colour, strong = colours(list(result.methods)), emphasised(result.methods)
    for label, method in result.methods.items():
        courses = [course for seed in method.seeds.values() if (course := pick(seed))]
        if courses and len(at):
            rows = np.stack([_values(at, samples, values) for samples, values in courses])
            spans = rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0)
            yield Series(method_name(label), colour[label], label in strong, *spans)


def _values(at: Floats, samples: Sequence[int], values: Sequence[float]) -> Floats:
    """The values themselves where they were taken at these samples; else what lies between."""
    taken = np.asarray(values, dtype=np.float64)
    return taken if np.array_equal(samples, at) else np.interp(at, samples, taken)
