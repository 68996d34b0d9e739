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
    if tell is not None:
        tell(f"at {task}")
    if task < 0:
        raise ValueError(f"{task} has no root")
    return float(task**0.5)


def die_first(task: Deadly, tell: Tell | None) -> str:
    name, folder, deaths = task
    tried = len(list(folder.glob(f"{name}-*")))
    (folder / f"{name}-{tried}").write_text(str(os.getpid()))
    if tried < deaths and name == "without device":
        lose_device()
    if tried < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"after {tried}"


def lose_device() -> NoReturn:
    """As after an illegal access: the process lives, but whatever it asks of CUDA raises."""

    def refuse() -> NoReturn:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    torch.cuda.is_initialized = lambda: True
    torch.cuda.synchronize = refuse  # type: ignore[assignment]
    raise RuntimeError("the method raised")


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=spawns)])
def test_a_task_that_raises_is_broken_and_the_others_go_on(jobs: int) -> None:
    heard: list[object] = []
    ends: dict[int, float | Broken] = {}
    for task, end in run([4, -1, 9], root, jobs, tell=heard.append):
        assert f"at {task}" in heard
        ends[task] = end
    broken = ends.pop(-1)
    assert ends == {4: 2.0, 9: 3.0}
    assert isinstance(broken, Broken)
    assert broken.reason == "ValueError: -1 has no root"
    assert "in root" in broken.traceback  # where it happened
    assert sorted(map(str, heard)) == ["at -1", "at 4", "at 9"]


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


@spawns
def test_a_process_that_dies_costs_its_task_a_try_and_the_others_nothing(tmp_path: Path) -> None:
    deaths = {"without device": 1, "once": 1, "always": 99, "never": 0}
    tasks: list[Deadly] = [(name, tmp_path, times) for name, times in deaths.items()]
    ends = {task[0]: end for task, end in run(tasks, die_first, jobs=2)}
    assert ends == {
        "without device": "after 1",
        "once": "after 1",
        "always": Broken(
            "3 times its process was killed, perhaps for want of memory: try fewer jobs"
        ),
        "never": "after 0",
    }
    assert len(list(tmp_path.glob("always-*"))) == 3
    first, second = sorted(tmp_path.glob("without device-*"))
    assert len({first.read_text(), second.read_text(), str(os.getpid())}) == 3  # processes


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
