"""An experiment over the built-in digits: small, but of several streams and methods.

    python small_experiment.py RESULTS JOBS

runs what of it is missing; tests kill that, and start it again.
"""

import sys
from collections.abc import Mapping
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
    done = []
    todo = plan(experiments or (EXPERIMENT,), results, wanted)
    for walk, end in carry_out(todo, partial(run, jobs=1)):
        assert isinstance(walk, Walk)
        assert not isinstance(end, Broken), end.traceback
        done.append(f"{walk.variant.name}: {walk.method}, seed {walk.seed}")
    return done


def timeless(value: Any) -> Any:
    """A result without what differs between two runs of the same: when it was, how long it took."""
    if isinstance(value, Mapping):
        return {k: timeless(v) for k, v in value.items() if k not in ("time", "ms_per_batch")}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def main() -> None:
    results, jobs = Path(sys.argv[1]), int(sys.argv[2])
    todo = plan([EXPERIMENT], results, WANTED)
    for walk, end in carry_out(todo, partial(run, jobs=jobs)):
        assert isinstance(walk, Walk)
        assert not isinstance(end, Broken), end.traceback
        print(walk.method, walk.seed, flush=True)


if __name__ == "__main__":
    main()
