"""The engine on Ray: the same ends as here, and what happens to tasks that raise or are killed."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from small_experiment import EXPERIMENT, timeless
from typer.testing import CliRunner

from rotta.cli import app
from rotta.experiments import EXPERIMENTS
from rotta.experiments.distributed import run_on_ray
from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Variant
from rotta.experiments.store import FILE
from rotta.experiments.tasks import Walk, Walked, perform


@pytest.fixture(scope="module")
def workers(local_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same surroundings for all tests: in others, Ray would start workers anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROTTA_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("ROTTA_COMMIT", "0123abc")
        yield


@pytest.mark.usefixtures("workers")
def test_walks_on_ray_end_like_those_here() -> None:
    methods = ("source", "rotta:capacity=16")
    variant = Variant("tiny", "digits-c", "digits", methods, order=("fog", "snow"), batch_size=16)
    walks = [Walk(variant, method, 0, 20, "cpu") for method in methods]
    here, there = dict(run(walks, perform, 1)), dict(run_on_ray(walks, perform))
    assert [outcome(there[walk]) for walk in walks] == [outcome(here[walk]) for walk in walks]


def outcome(end: Walked | Broken) -> object:
    """All but the times, and where it was computed."""
    assert isinstance(end, Walked), end
    result = replace(end.result, ms_per_batch=0.0)
    return result, end.config, end.options, end.provenance["commit"]


@pytest.mark.usefixtures("workers")
def test_the_command_brings_the_same_results_on_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "small", EXPERIMENT)
    chosen = ("--methods", "source,bn", "--variants", "correlated", "--limit", "20")
    for place, *engine in (("here", "--jobs", "1"), ("there", "--engine", "ray")):
        words = ("reproduce", "small", *chosen, "--device", "cpu", *engine)
        done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / place)])
        assert done.exit_code == 0, done.output
    here, there = (
        timeless(json.loads((tmp_path / place / "limit-20" / "small" / FILE).read_text()))
        for place in ("here", "there")
    )
    assert set(here["blocks"]["correlated"]["methods"]) == {"source", "bn"}
    assert there == here


@pytest.mark.usefixtures("workers")
def test_a_task_that_raises_is_broken_and_the_others_go_on() -> None:
    def root(task: int, tell: object) -> float:
        if task < 0:
            raise ValueError(f"{task} has no root")
        return float(task**0.5)

    ends = dict(run_on_ray([4, -1, 9], root))
    broken = ends.pop(-1)
    assert ends == {4: 2.0, 9: 3.0}
    assert isinstance(broken, Broken)
    assert broken.reason == "ValueError: -1 has no root"
    assert "in root" in broken.traceback  # where it happened


@pytest.mark.usefixtures("workers")
def test_who_stops_drawing_leaves_no_task(tmp_path: Path) -> None:
    def work(task: str, tell: object) -> str:
        if task == "long":
            (tmp_path / "pid").write_text(str(os.getpid()))
            time.sleep(600)
        while not (tmp_path / "pid").exists():  # until both are at work
            time.sleep(0.01)
        return task

    ends = run_on_ray(["short", "long"], work)
    assert next(ends) == ("short", "short")
    ends.close()
    pid = int((tmp_path / "pid").read_text())
    for _ in range(1000):
        if not is_running(pid):
            break
        time.sleep(0.01)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("workers")
def test_a_killed_worker_costs_its_task_a_try_and_the_others_nothing(tmp_path: Path) -> None:
    def work(task: str, tell: object) -> str:
        tried = len(list(tmp_path.glob(f"{task}-*")))
        (tmp_path / f"{task}-{tried}").write_text(str(os.getpid()))
        if task == "always" or (task == "once" and tried == 0):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{task} after {tried}"

    ends = dict(run_on_ray(["once", "always", "never"], work))
    broken = ends.pop("always")
    assert ends == {"once": "once after 1", "never": "never after 0"}
    assert isinstance(broken, Broken)
    assert broken.reason.startswith("WorkerCrashedError: The worker died unexpectedly")
    assert len(list(tmp_path.glob("always-*"))) == 4


@pytest.mark.usefixtures("workers")
def test_gpus_that_no_node_has_are_refused_instead_of_waited_for() -> None:
    with pytest.raises(ValueError, match="a task needs 64 GPU, and the Ray cluster has"):
        list(run_on_ray([1], lambda task, tell: task, gpus_per_task=64))


def test_no_task_needs_no_cluster() -> None:
    pytest.importorskip("ray")
    assert not list(run_on_ray([], perform, address="nowhere.invalid:6379"))


def test_an_address_where_nobody_answers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"no Ray cluster at {address} .* leave the address"):
            list(run_on_ray([1], lambda task, tell: task, address=address))


def test_without_ray_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rotta\[ray\]'"):
        run_on_ray([1], lambda task, tell: task)
