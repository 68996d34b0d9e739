"""The few numbers that say most."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rotta.bench.cell import Measurement, What
from rotta.bench.workload import BANK


@dataclass(frozen=True)
class Summary:
    """Ratios of medians; none where one of the two was not measured."""

    rotta_over_floor: float | None
    """Predict and update at batch 64."""
    plain_over_rotta: float | None
    """Predict and update at batch 64."""
    rotta_over_floor_memory: float | None
    """Predict and update at batch 64, at the peak."""
    predict_over_bare_at_1: float | None
    """RoTTA's prediction of one image over that of the network alone."""
    medians_ms: dict[str, float | None]
    """Of floor, rotta and plain: predict and update at batch 64."""
    over_floor: dict[str, float]
    """Of everybody: predict and update at batch 64."""


def summarise(measurements: Sequence[Measurement], rotta: str) -> Summary:
    """Put the measurements of RoTTA beside the others.

    Args:
        measurements: All there are.
        rotta: The subject that is RoTTA.
    """

    def find(subject: str, what: What = "predict+update", batch: int = BANK) -> Measurement | None:
        wanted = subject, what, batch
        return _first(m for m in measurements if (m.subject, m.what, m.batch) == wanted)

    floor, own, plain = find("floor"), find(rotta), find("plain")
    memory = own.peak_memory_mib / floor.peak_memory_mib if own and floor else None
    return Summary(
        rotta_over_floor=_ratio(own, floor),
        plain_over_rotta=_ratio(plain, own),
        rotta_over_floor_memory=memory,
        predict_over_bare_at_1=_ratio(find(rotta, "predict", 1), find("bare", "predict", 1)),
        medians_ms={
            name: found.median_ms if found else None
            for name, found in (("floor", floor), ("rotta", own), ("plain", plain))
        },
        over_floor={
            m.subject: m.median_ms / floor.median_ms
            for m in measurements
            if floor and (m.what, m.batch) == (floor.what, floor.batch)
        },
    )


def over_floor(measurement: Measurement, measurements: Iterable[Measurement]) -> float | None:
    """How many times what the floor takes for the same."""
    same = (measurement.what, measurement.batch)
    floor = _first(m for m in measurements if m.subject == "floor" and (m.what, m.batch) == same)
    return _ratio(measurement, floor)


def _ratio(one: Measurement | None, other: Measurement | None) -> float | None:
    return one.median_ms / other.median_ms if one and other else None


def _first(found: Iterable[Measurement]) -> Measurement | None:
    return next(iter(found), None)
