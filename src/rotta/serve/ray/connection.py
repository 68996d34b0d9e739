"""To a Ray cluster, which may be this machine alone."""

import logging
import os
import socket
from typing import Any

_SECONDS_TO_ANSWER = 10
_STORE_BYTES = 512 << 20  # of shared memory, through which large requests go


def require_ray() -> Any:
    """The package.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "--engine ray needs Ray: pip install 'rotta[serve,ray,redis]'", name="ray"
        ) from error
    return ray


def connect(address: str | None, replicas: int) -> bool:
    """Connect this process to a cluster, unless it is connected already.

    Args:
        address: ``auto`` or ``host:port``, of a cluster that this machine is part of; without it,
            Ray is started here.
        replicas: For how many there shall be cores, if it is started here.

    Returns:
        Whether this has connected it, so that it must be disconnected at the end.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: There is no cluster at the address.
    """
    ray = require_ray()
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = {
        "num_cpus": max(replicas, os.cpu_count() or 1),
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
    }
    try:
        if address is not None:
            _check_somebody_listens(address)
        ray.init(
            address=address or "local",
            logging_level=logging.ERROR,
            **({} if address else local),
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is None:
            raise
        raise ValueError(
            f"this machine is part of no Ray cluster at {address} ({error}): start one with `ray "
            "start`, or leave --ray-address out"
        ) from error
    return True


def _check_somebody_listens(address: str) -> None:
    """Ray itself would try again for many minutes."""
    host, colon, port = address.rpartition(":")
    if address.startswith("ray://"):
        raise ValueError("the server itself must run on a machine of the cluster")
    if not (colon and port.isdigit()):
        return  # a word such as auto, which Ray looks up
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError) as error:
        raise ValueError(str(error)) from error
