"""Tasks of an experiment on a Ray cluster, which may be this machine alone."""

import logging
import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rotta.experiments.engines import Broken, End, Task, Tell, attempt

_RETRIES = 3
_SECONDS_TO_ANSWER = 10
_FOLDERS = ("ROTTA_HOME", "ROTTA_CACHE")
_STORE_BYTES = 100 * 2**20  # of shared memory, which Ray would take a third of: results are small


def run_on_ray(
    tasks: Sequence[Task],
    work: Callable[[Task, Tell | None], End],
    *,
    address: str | None = None,
    gpus_per_task: float = 0.0,
    tell: Tell | None = None,  # noqa: ARG001 (as other engines have it; from a cluster come ends only)
) -> Generator[tuple[Task, End | Broken], None, None]:
    """Do all tasks on Ray, begun in their order, and yield each with its end as soon as it is over.

    A task that raises is broken, and the others go on; one whose worker or node dies is started
    again, up to three times. On other machines, this package must be installed and the folders of
    ``ROTTA_HOME`` and ``ROTTA_CACHE`` must be the same. When the iteration ends or is closed, no
    task goes on, and Ray is shut down if it was started or connected to here.

    Args:
        tasks: What can be pickled.
        work: Called with a task and ``None``, on one core.
        address: Of a cluster: ``auto``, ``host:6379``, ``ray://host:10001``. Without it, Ray is
            started on this machine, unless this process uses one already.
        gpus_per_task: The part of a GPU that a task gets: a quarter lets four share one.
        tell: Never called.

    Yields:
        A task, and what ``work`` returned or :class:`Broken`.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: There is no cluster at the address, or it has not enough GPUs for a task.

    Example:
        >>> def invert(number, tell):
        ...     return 1 / number
        >>> dict(run_on_ray([2, 4], invert))  # doctest: +SKIP
        {2: 0.5, 4: 0.25}
    """
    _ray()  # now, not when the first end is asked for
    return _run(tasks, work, address, gpus_per_task)


def _run(
    tasks: Sequence[Task],
    work: Callable[[Task, Tell | None], End],
    address: str | None,
    gpus_per_task: float,
) -> Generator[tuple[Task, End | Broken], None, None]:
    if not tasks:
        return
    ray = _ray()
    with _cluster(address):
        _check_gpus(gpus_per_task)
        remote = ray.remote(attempt).options(
            num_cpus=1,
            num_gpus=gpus_per_task,
            max_retries=_RETRIES,
            name=getattr(work, "__name__", "work"),
            runtime_env={"env_vars": _environment()},
        )
        shared = ray.put(work)
        running = {remote.remote(shared, task): task for task in tasks}
        try:
            while running:
                (over,), _ = ray.wait(list(running), num_returns=1)
                yield running.pop(over), _end(over)
        finally:
            for left in running:
                ray.cancel(left, force=True)


def _end(over: Any) -> Any:
    ray = _ray()
    try:
        return ray.get(over)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [""]
        if isinstance(error, ray.exceptions.RayTaskError):  # as a traceback: the end says it
            return Broken(lines[-1], str(error))
        return Broken(f"{type(error).__name__}: {lines[0]}", str(error))


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Within, this process is connected to a cluster: that which it uses already, or another.

    Raises:
        ValueError: There is none at the address.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else local),
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is None:
            raise
        raise _no_cluster(address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse where nobody answers: Ray itself would try again for many minutes.

    Raises:
        ValueError: Nobody does.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # a word such as auto, which Ray looks up
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> ValueError:
    return ValueError(
        f"no Ray cluster at {address} ({error}): start one with `ray start --head`, or leave the "
        "address out"
    )


def _check_gpus(needed: float) -> None:
    """Refuse what would wait for ever."""
    there = _ray().cluster_resources().get("GPU", 0.0)
    if there < needed:
        raise ValueError(
            f"a task needs {needed:g} GPU, and the Ray cluster has {there:g}: compute on the CPU, "
            "or give the address of a cluster with GPUs"
        )


def _environment() -> dict[str, str]:
    """What workers need to find the same files, and to state the same origin."""
    folders = {name: os.environ[name] for name in _FOLDERS if os.environ.get(name)}
    # a worker's current folder may be another
    stated = {name: str(Path(path).expanduser().absolute()) for name, path in folders.items()}
    commit = os.environ.get("ROTTA_COMMIT")
    return {**stated, "ROTTA_COMMIT": commit} if commit else stated


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the engine ray needs Ray: pip install 'rotta[ray]'", name="ray"
        ) from error
    return ray
