"""An experiment over the built-in digits: small, but of several streams and methods."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Experiment, Variant
from rotta.experiments.reproduce import Wanted, carry_out, plan
from rotta.experiments.tasks import Walk

DOMAINS = ("fog", "motion_blur", "brightness")
WANTED = Wanted(seeds=(0, 1), limit=50)


def variant(name: str, methods: tuple[str, ...], **stream: Any) -> Variant:
    return Variant(name, "digits-c", "digits", methods, order=DOMAINS, **stream)


EXPERIMENT = Experiment(
    "small",
    "A small experiment",
    (
        variant("correlated", ("source", "bn", "rotta", "cotta:passes=2")),
        variant("independent", ("source", "rotta:alpha=0.1"), setting="continual"),
    ),
)


def carried_out(results: Path, *experiments: Experiment, wanted: Wanted = WANTED) -> list[str]:
    """Run what is missing, and say what was done."""
    return list(walks_done(results, *experiments, wanted=wanted))


def walks_done(
    results: Path, *experiments: Experiment, wanted: Wanted = WANTED, jobs: int = 1
) -> Iterator[str]:
    """Run what is missing, and say of each walk when it is done."""
    todo = plan(experiments or (EXPERIMENT,), results, wanted)
    for walk, end in carry_out(todo, partial(run, jobs=jobs)):
        assert isinstance(walk, Walk)
        assert not isinstance(end, Broken), end.traceback
        yield f"{walk.variant.name}: {walk.method}, seed {walk.seed}"


def timeless(value: Any) -> Any:
    """A result without what differs between two runs of the same: when it was, how long it took."""
    if isinstance(value, Mapping):
        return {k: timeless(v) for k, v in value.items() if k not in ("time", "ms_per_batch")}
    return [timeless(v) for v in value] if isinstance(value, list) else value
