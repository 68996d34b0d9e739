"""Engines of experiments: what comes back, and what happens to tasks that raise or are killed."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Variant
from rotta.experiments.tasks import Walk, Walked, perform

Tell = Callable[[Any], None]
Deadly = tuple[str, Path, int]
"""A name, a folder to leave traces in, and how many processes die over it."""

spawns = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")


def root(task: int, tell: Tell | None) -> float:
    if task < 0:
        raise ValueError(f"{task} has no root")
    return float(task**0.5)


def shout(task: str, tell: Tell | None) -> str:
    assert tell is not None
    tell(f"at {task}")
    return task.upper()


def die_first(task: Deadly, tell: Tell | None) -> str:
    name, folder, deaths = task
    tried = len(list(folder.glob(f"{name}-*")))
    (folder / f"{name}-{tried}").write_text(str(os.getpid()))
    if tried < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{name} after {tried}"


def lose_device_first(folder: Path, tell: Tell | None) -> int:
    """As after an illegal access: the process lives, but whatever it asks of CUDA raises."""

    def refuse() -> NoReturn:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    (folder / str(os.getpid())).touch()
    if len(list(folder.iterdir())) == 1:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.synchronize = refuse  # type: ignore[assignment]
        raise RuntimeError("the method raised")
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=spawns)])
def test_a_task_that_raises_is_broken_and_the_others_go_on(jobs: int) -> None:
    ends = dict(run([4, -1, 9, 16], root, jobs))
    broken = ends.pop(-1)
    assert ends == {4: 2.0, 9: 3.0, 16: 4.0}
    assert isinstance(broken, Broken)
    assert broken.reason == "ValueError: -1 has no root"
    assert "in root" in broken.traceback  # where it happened


@spawns
def test_walks_in_processes_end_like_those_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    walks = tiny_walks()
    here, there = dict(run(walks, perform, 1)), dict(run(walks, perform, 2))
    assert [outcome(there[walk]) for walk in walks] == [outcome(here[walk]) for walk in walks]


def tiny_walks() -> list[Walk]:
    methods = ("source", "rotta:capacity=16")
    variant = Variant("tiny", "digits-c", "digits", methods, order=("fog", "snow"), batch_size=16)
    return [Walk(variant, method, 0, 20, "cpu") for method in methods]


def outcome(end: Walked | Broken) -> object:
    """All but the time it took."""
    assert isinstance(end, Walked)
    return replace(end.result, ms_per_batch=0), end.config, end.options


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=spawns)])
def test_news_come_before_the_end(jobs: int) -> None:
    heard: list[object] = []
    for task, end in run(["c", "a"], shout, jobs, tell=heard.append):
        heard.append((task, end))
    assert set(heard) == {"at c", ("c", "C"), "at a", ("a", "A")}
    assert heard.index("at c") < heard.index(("c", "C"))
    assert heard.index("at a") < heard.index(("a", "A"))


@spawns
def test_a_killed_process_costs_its_task_a_try_and_the_others_nothing(tmp_path: Path) -> None:
    tasks: list[Deadly] = [("once", tmp_path, 1), ("always", tmp_path, 99), ("never", tmp_path, 0)]
    ends = {task[0]: end for task, end in run(tasks, die_first, jobs=2)}
    assert ends == {
        "once": "once after 1",
        "never": "never after 0",
        "always": Broken(
            "3 times its process was killed, perhaps for want of memory: try fewer jobs"
        ),
    }
    assert len(list(tmp_path.glob("always-*"))) == 3
    assert str(os.getpid()) not in {trace.read_text() for trace in tmp_path.iterdir()}


@spawns
def test_a_process_that_lost_its_device_is_replaced(tmp_path: Path) -> None:
    ((_, end),) = run([tmp_path], lose_device_first, jobs=2)
    first, second = sorted(tmp_path.iterdir(), key=lambda trace: trace.stat().st_mtime_ns)
    assert end == int(second.name) != int(first.name)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=spawns)])
def test_who_stops_drawing_leaves_no_process(jobs: int) -> None:
    ends = run([1, 4, 9, 16], root, jobs)
    task, end = next(ends)
    assert end == task**0.5
    assert len(multiprocessing.active_children()) == (jobs if jobs > 1 else 0)
    ends.close()
    assert not multiprocessing.active_children()


def test_an_interrupt_is_no_broken_task() -> None:
    def interrupted(task: int, tell: Tell | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run([1, 2], interrupted, jobs=1))


def test_less_than_one_job_is_refused_before_anything_is_done() -> None:
    with pytest.raises(ValueError, match="jobs must be 1 or more, got 0"):
        run([4], root, jobs=0)
