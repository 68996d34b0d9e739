"""Several subjects that do the same on batches of one size."""

import gc
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rotta.bench.memory import Held, held_bytes, peak_mib
from rotta.bench.subjects import Method, Subject
from rotta.bench.timing import Action, Budget, Timer, take_turns
from rotta.bench.workload import Workload

What = Literal["predict", "predict+update"]

_WARM_UP = {"cpu": 0, "cuda": 5}
"""Rounds before the one whose memory is measured: none is timed. CUDA graphs are recorded then."""


@dataclass(frozen=True)
class Cell:
    """Who does what on which batches, and for how long."""

    what: What
    batch: int
    subjects: Sequence[Subject]
    budget: Budget


@dataclass(frozen=True)
class Measurement:
    """What came out for one subject."""

    subject: str
    what: What
    batch: int
    median_ms: float
    """Per call."""
    p95_ms: float
    rounds: int
    calls_per_round: int
    peak_memory_mib: float


def calls_per_round(batch: int, update_every: int) -> int:
    """The fewest calls after which the next update is as far away as before.

    Example:
        >>> [calls_per_round(batch, update_every=64) for batch in (1, 8, 48, 64, 256)]
        [64, 8, 4, 1, 1]
    """
    return math.lcm(batch, update_every) // batch


def measure(
    cell: Cell, load: Workload, timer: Timer, finished: Callable[[str], None] = lambda _: None
) -> list[Measurement]:
    """Build everybody, warm up, look at their memory one by one, then time them in turns.

    Args:
        cell: Who and what.
        load: On what.
        timer: How long a round takes.
        finished: Is told who is done.

    Returns:
        One measurement of each subject, in their order.
    """
    start = _settled_bytes(cell, load)
    rounds: dict[str, Action] = {}
    calls: dict[str, int] = {}
    memory: dict[str, float] = {}
    for subject in cell.subjects:
        others = held_bytes(load.device).beyond(start)
        method = subject.build()
        calls[subject.name] = _calls(method, cell)
        act = rounds[subject.name] = _round(method, cell, load, calls[subject.name])
        for _ in range(_WARM_UP[load.device.type]):
            act()
        memory[subject.name] = peak_mib(act, load.device, others)
    times = take_turns(rounds, timer, cell.budget, finished)
    return [
        Measurement(
            subject=name,
            what=cell.what,
            batch=cell.batch,
            median_ms=statistics.median(taken) / calls[name],
            p95_ms=float(np.percentile(taken, 95)) / calls[name],
            rounds=len(taken),
            calls_per_round=calls[name],
            peak_memory_mib=memory[name],
        )
        for name, taken in times.items()
    ]


def _settled_bytes(cell: Cell, load: Workload) -> Held:
    """What is held before anybody is there."""
    if load.device.type == "cuda":
        # libraries allocate workspaces once and keep them: they belong to nobody
        method = cell.subjects[0].build()
        _round(method, cell, load, _calls(method, cell))()
        del method
    gc.collect()  # and those of the cell before
    return held_bytes(load.device)


def _calls(method: Method, cell: Cell) -> int:
    if cell.what == "predict":
        return 1
    # methods without a cadence do the same at every call
    return calls_per_round(cell.batch, getattr(method, "update_every", 1))


def _round(method: Method, cell: Cell, load: Workload, calls: int) -> Action:
    batches = load.batches(cell.batch)
    step = method.predict if cell.what == "predict" else method

    def act() -> None:
        for number in range(calls):
            step(batches[number % len(batches)])

    return act
