"""Tasks of an experiment in this process or in several beside it, whatever becomes of them."""

import os
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from rotta.side_by_side import Lost, side_by_side

Task = TypeVar("Task")
End = TypeVar("End")
Tell = Callable[[Any], None]

TRIES = 3
"""So many processes may die over a task before it is given up."""


@dataclass(frozen=True)
class Broken:
    """What became of a task that raised, or over which process after process died."""

    reason: str
    traceback: str = ""


def run(
    tasks: Sequence[Task],
    work: Callable[[Task, Tell | None], End],
    jobs: int,
    tell: Tell | None = None,
) -> Generator[tuple[Task, End | Broken], None, None]:
    """Do all tasks, begun in their order, and yield each with its end as soon as it is over.

    A task that raises is broken, and the others go on. One job does them in this process. More
    jobs do them in spawned processes, each with one thread on the CPU, and free to use CUDA; a
    task whose process dies is done again in another, up to three times in all. The processes are
    gone when the iteration ends or is closed.

    Args:
        tasks: For more than one job, what can be pickled.
        work: Called with a task, and with what hands news to ``tell``. For more than one job, a
            function of a module, for a new process has to find it.
        jobs: How many tasks go on at the same time.
        tell: Called here with the news of those at work.

    Yields:
        A task, and what ``work`` returned or :class:`Broken`.

    Raises:
        ValueError: Less than one job.

    Example:
        >>> def invert(number, tell):
        ...     return 1 / number
        >>> for number, end in run([2, 0, 4], invert, jobs=1):
        ...     print(number, end.reason if isinstance(end, Broken) else end)
        2 0.5
        0 ZeroDivisionError: division by zero
        4 0.25
    """
    if jobs < 1:
        raise ValueError(f"jobs must be 1 or more, got {jobs}")
    if jobs == 1:
        return _one_by_one(tasks, work, tell)
    return _in_processes(tasks, work, jobs, tell)


def attempt(
    work: Callable[[Task, Tell | None], End], task: Task, tell: Tell | None = None
) -> End | Broken:
    """What ``work`` makes of the task, or what it raised, in a form that can be sent around."""
    try:
        return work(task, tell)
    except Exception as error:
        where = "".join(traceback.format_exception(error))
        return Broken(f"{type(error).__name__}: {error}", where)


def _one_by_one(
    tasks: Sequence[Task], work: Callable[[Task, Tell | None], End], tell: Tell | None
) -> Generator[tuple[Task, End | Broken], None, None]:
    for task in tasks:
        yield task, attempt(work, task, tell)


def _in_processes(
    tasks: Sequence[Task], work: Callable[[Task, Tell | None], End], jobs: int, tell: Tell | None
) -> Generator[tuple[Task, End | Broken], None, None]:
    guarded = partial(attempt, partial(_sound, work))
    ends = side_by_side(tasks, guarded, jobs, tell, start="spawn", tries=TRIES)
    with closing(ends):
        for task, end in ends:
            yield task, Broken(f"{TRIES} times {end.reason}") if isinstance(end, Lost) else end


def _sound(work: Callable[[Task, Tell | None], End], task: Task, tell: Tell | None) -> End:
    """Do the task, but end this process if it can no longer use its device.

    After some errors all that a process asks of its device fails: it would break every task that
    is still to come.
    """
    try:
        return work(task, tell)
    except Exception:
        if _device_answers():
            raise
        traceback.print_exc()
        os._exit(1)


def _device_answers() -> bool:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
