"""A walk of many visits over the built-in digits."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rotta.comparison import Look
from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Experiment, Variant
from rotta.experiments.reproduce import Wanted, carry_out, plan

METHOD = "rotta-lasting:update_every=8:capacity=8:reset_every=100"
WANTED = Wanted(limit=20)
EXPERIMENT = Experiment(
    "many-visits",
    "",
    (
        Variant(
            "digits",
            "digits-c",
            "digits",
            (METHOD,),
            order=("fog", "snow"),
            visits=6,
            batch_size=4,
        ),
    ),
)


def walk(results: Path, tell: Callable[[Look], None] | None = None) -> None:
    for _, end in carry_out(plan([EXPERIMENT], results, WANTED), partial(run, jobs=1), tell):
        assert not isinstance(end, Broken), end.traceback
