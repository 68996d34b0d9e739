"""Pieces of work in processes beside each other, each of them with one thread."""

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, SpawnContext
from typing import Any, Generic, Literal, TypeVar

import torch

Task = TypeVar("Task")
News = TypeVar("News")
End = TypeVar("End")
Work = Callable[[Task, Callable[[News], None] | None], End]
Start = Literal["fork", "spawn"]

_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


@dataclass(frozen=True)
class Lost:
    """What became of a piece of work whose process died over it."""

    reason: str


def automatic_jobs(tasks: int, device: torch.device) -> int:
    """How many pieces of work should go on at the same time: one per core, or one.

    One per core is faster than one after the other with all cores, for threads wait for each
    other at every layer; but only where there is enough to do for all cores.

    Example:
        >>> automatic_jobs(1000, torch.device("cuda"))
        1
    """
    if device.type != "cpu" or not _can_fork():
        return 1
    cores = min(len(os.sched_getaffinity(0)), torch.get_num_threads())
    return cores if tasks >= cores else 1


def check_jobs(jobs: int, device: torch.device) -> None:
    """Refuse a number of jobs that cannot be.

    Raises:
        ValueError: It is no whole number from 1 on, or more than 1 where processes cannot share
            the device or cannot be forked.
    """
    if not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"jobs must be 1 or more, a whole number, got {jobs!r}")
    if jobs > 1 and device.type != "cpu":
        raise ValueError(f"{jobs} jobs need the CPU, not {device}: leave jobs at 1, or use cpu")
    if jobs > 1 and not _can_fork():
        raise ValueError(f"{jobs} jobs need Linux, not {sys.platform}: leave jobs at 1")


def side_by_side(
    tasks: Sequence[Task],
    work: "Work[Task, News, End]",
    jobs: int,
    tell: Callable[[News], None] | None = None,
    *,
    start: Start = "fork",
    tries: int = 1,
) -> Generator[tuple[Task, End | Lost], None, None]:
    """Do pieces of work in processes, and yield each with its end as soon as it is over.

    Forked processes inherit tasks and work; only news, ends and errors are pickled. Spawned ones
    start afresh, as the use of CUDA asks, and get tasks and work pickled. Both compute with one
    thread, as after a fork they must: those of OpenMP stay behind. They are gone when the
    iteration ends, fails or is closed, and on Linux also when this process is killed.

    Args:
        tasks: In the order in which they are begun.
        work: Called in one of the processes with a task, and with what hands news to ``tell``.
        jobs: How many processes.
        tell: Called here with the news.
        start: How the processes are made.
        tries: How many processes may die over a task before it is lost. It is tried again after
            those that wait: what it died of may have been its neighbours' appetite.

    Yields:
        A task and what ``work`` returned, or :class:`Lost` if the process died, for which another
        takes its place.

    Raises:
        Exception: What ``work`` raised first.

    Example:
        >>> sorted(side_by_side([1, 2, 3], lambda task, tell: task**2, jobs=2))
        [(1, 1), (2, 4), (3, 9)]
    """
    waiting = deque(range(len(tasks)))
    deaths: Counter[int] = Counter()
    crew: list[_Worker[Task, News, End]] = []
    if start == "spawn":
        resource_tracker.ensure_running()  # its start would let interrupts through again

    def take_on() -> None:
        with _interrupts_held_back():  # or one might be started, but not known
            crew.append(_Worker(tasks, work, tell, start))

    try:
        for _ in range(min(jobs, len(tasks))):
            take_on()
        for worker in crew:
            worker.begin(waiting.popleft())
        while busy := [worker for worker in crew if worker.task is not None]:
            ready = wait([worker.connection for worker in busy])
            for worker in [worker for worker in busy if worker.connection in ready]:
                task, end = worker.task, worker.hear()
                if end is None:
                    continue
                assert task is not None
                if isinstance(end, Lost):
                    crew.remove(worker)
                    deaths[task] += 1
                    if deaths[task] < tries:
                        waiting.append(task)
                    if waiting:
                        take_on()
                        worker = crew[-1]
                if waiting:  # before the yield: who draws this out may take his time
                    worker.begin(waiting.popleft())
                if not isinstance(end, Lost) or deaths[task] == tries:
                    yield tasks[task], end
    finally:
        for worker in crew:
            worker.dismiss()


@dataclass(frozen=True)
class _News:
    what: Any


@dataclass(frozen=True)
class _Ended:
    end: Any


@dataclass(frozen=True)
class _Raised:
    error: Exception


class _Worker(Generic[Task, News, End]):
    """A process, seen from here. The pipe is its own: one that dies blocks no other."""

    def __init__(
        self,
        tasks: Sequence[Task],
        work: "Work[Task, News, End]",
        tell: Callable[[News], None] | None,
        start: Start,
    ) -> None:
        context = _context(start)
        self.connection, there = context.Pipe()
        self.task: int | None = None
        self._tell = tell
        # one that is spawned gets its tasks through the pipe, one by one: all of them might be
        # more than its start takes in before the process reads, and if it died then, for ever
        self._handed = tasks if start == "spawn" else range(len(tasks))
        inherited = tasks if start == "fork" else None
        self._process = context.Process(
            target=_serve, args=(there, inherited, work, tell is not None, os.getpid()), daemon=True
        )
        self._process.start()
        there.close()  # so that the end of the process is the end of the pipe

    def begin(self, task: int) -> None:
        """Hand over the task of this number."""
        self.task = task
        with suppress(OSError):  # it died meanwhile: hear() will tell
            self.connection.send(self._handed[task])

    def hear(self) -> End | Lost | None:
        """Take what the process says: the end of its task, or none if that is still to come."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError):
            self.dismiss()
            return Lost(_cause_of_death(self._process.exitcode or 0))
        if isinstance(said, _News):
            assert self._tell is not None
            self._tell(said.what)
            return None
        self.task = None
        if isinstance(said, _Raised):
            raise said.error
        end: End = said.end
        return end

    def dismiss(self) -> None:
        """End the process, in whatever it is: it holds nothing that must be kept."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _context(start: Start) -> ForkContext | SpawnContext:
    if start == "fork":
        return multiprocessing.get_context("fork")
    return multiprocessing.get_context("spawn")


def _serve(
    connection: "Connection[Any, Any]",
    inherited: Sequence[Task] | None,
    work: "Work[Task, News, End]",
    talkative: bool,
    parent: int,
) -> None:
    """What a process does until it is ended."""
    _die_with(parent)
    gc.freeze()  # what is inherited stays: it need not be searched for cycles again and again
    torch.set_num_threads(1)
    # the parent's may be a display, which has locks and a thread that was not forked
    sys.stdout = sys.stderr = open(2, "w", buffering=1, errors="replace", closefd=False)  # noqa: SIM115
    tell = (lambda news: connection.send(_News(news))) if talkative else None
    while True:
        handed = connection.recv()
        task = handed if inherited is None else inherited[handed]
        said: _Ended | _Raised
        try:
            said = _Ended(work(task, tell))
        except Exception as error:
            said = _Raised(_portable(error))
        connection.send(said)


def _die_with(parent: int) -> None:
    """Let the system end this process when its parent is no more, where Linux is the system."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was quicker
        os._exit(1)


def _portable(error: Exception) -> Exception:
    """The error with where it happened, or if it cannot be pickled one that says the same."""
    where = "".join(traceback.format_exception(error))
    try:
        copied: Exception = pickle.loads(pickle.dumps(error))
    except Exception:
        copied = RuntimeError(f"{type(error).__name__}: {error}")
    copied.add_note(f"in a process of its own:\n{where}")
    return copied


def _cause_of_death(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, perhaps for want of memory: try fewer jobs"
    how = signal.Signals(-code).name if code < 0 else f"code {code}"
    return f"its process ended unexpectedly with {how}"


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Ctrl-C waits for the end of the block; to a process forked in it, it never comes."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _can_fork() -> bool:
    """Elsewhere than on Linux, forked processes may not use the system's libraries."""
    return sys.platform == "linux"
