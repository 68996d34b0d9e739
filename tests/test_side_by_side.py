"""Work in forked processes: what comes back, what happens to those that die, and who is left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rotta.side_by_side import Lost, automatic_jobs, check_jobs, side_by_side

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, as only Linux allows")

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Unportable(Exception):
    """Cannot be built again from its message."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_every_task_has_its_end_from_a_process_with_one_thread() -> None:
    def work(task: int, tell: object) -> tuple[int, int, int]:
        return task**2, os.getpid(), torch.get_num_threads()

    ends = dict(side_by_side(range(6), work, jobs=3))
    values = [end for _, end in sorted(ends.items()) if not isinstance(end, Lost)]
    assert [square for square, _, _ in values] == [0, 1, 4, 9, 16, 25]
    assert {threads for _, _, threads in values} == {1}
    pids = {pid for _, pid, _ in values}
    assert os.getpid() not in pids
    assert len(pids) <= 3


def test_tasks_go_on_at_the_same_time(tmp_path: Path) -> None:
    def work(task: str, tell: object) -> str:
        (tmp_path / task).touch()
        while len(list(tmp_path.iterdir())) < 2:  # for ever, if the other has to wait
            time.sleep(0.01)
        return task

    assert {end for _, end in side_by_side("ab", work, jobs=2)} == {"a", "b"}


def test_tasks_are_begun_in_their_order_and_news_come_before_the_end() -> None:
    heard: list[object] = []

    def work(task: str, tell: Callable[[str], None] | None) -> str:
        assert tell is not None
        tell(f"at {task}")
        return task.upper()

    for task, end in side_by_side("cab", work, jobs=1, tell=heard.append):
        heard.append((task, end))
    assert heard == ["at c", ("c", "C"), "at a", ("a", "A"), "at b", ("b", "B")]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(5, "the disk is gone"), OSError, "the disk is gone"),
        (Unportable("odd", 3), RuntimeError, "Unportable: odd"),
    ],
)
def test_what_work_raises_is_raised_here(
    error: Exception, kind: type[Exception], message: str
) -> None:
    def work(task: int, tell: object) -> None:
        raise error

    with pytest.raises(kind, match=message) as raised:
        list(side_by_side([1, 2], work, jobs=2))
    assert "in work" in raised.value.__notes__[0]  # where it happened
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_process_that_dies_loses_its_task_alone(jobs: int) -> None:
    def work(task: str, tell: object) -> str:
        if task == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "left":
            os._exit(3)
        return "well"

    ends = dict(side_by_side(["killed", "left", "a", "b"], work, jobs=jobs))
    assert (ends.pop("a"), ends.pop("b")) == ("well", "well")
    assert ends == {
        "killed": Lost("its process was killed, perhaps for want of memory: try fewer jobs"),
        "left": Lost("its process ended unexpectedly with code 3"),
    }


def test_who_stops_drawing_leaves_no_process() -> None:
    def work(task: int, tell: object) -> int:
        if task > 0:
            time.sleep(600)
        return os.getpid()

    ends = side_by_side([0, 1, 2], work, jobs=2)
    _, pid = next(ends)
    assert isinstance(pid, int)
    assert is_running(pid)
    assert len(multiprocessing.active_children()) == 2
    ends.close()
    assert not is_running(pid)
    assert not multiprocessing.active_children()


def test_processes_do_not_outlive_a_parent_that_is_killed() -> None:
    code = """if True:
        import os, time
        from rotta.side_by_side import side_by_side
        def work(task, tell):
            tell(os.getpid())
            time.sleep(600)
        list(side_by_side([1, 2], work, 2, lambda pid: print(pid, flush=True)))
    """
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(map(is_running, pids))
    parent.kill()
    parent.communicate()
    for _ in range(1000):
        if not any(map(is_running, pids)):
            break
        time.sleep(0.01)
    assert not any(map(is_running, pids))


def test_one_job_per_core_where_there_is_work_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert [automatic_jobs(tasks, CPU) for tasks in (1, 3, 4, 5)] == [1, 1, 4, 4]
    assert automatic_jobs(100, CUDA) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)  # by OMP_NUM_THREADS, say
    assert automatic_jobs(100, CPU) == 3
    monkeypatch.setattr(sys, "platform", "darwin")
    assert automatic_jobs(100, CPU) == 1


def test_jobs_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for jobs in (0, -1, 1.5):
        with pytest.raises(ValueError, match="jobs must be 1 or more"):
            check_jobs(jobs, CPU)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 jobs need the CPU, not cuda: leave jobs at 1"):
        check_jobs(2, CUDA)
    check_jobs(1, CUDA)
    check_jobs(64, CPU)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match="need Linux, not darwin: leave jobs at 1"):
        check_jobs(2, CPU)
