"""A real server in a process of its own, on a free port."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from torch import Tensor

from rotta.client import Client
from rotta.datasets import load_dataset

PATIENCE = 60.0  # seconds; a test that waits longer has failed, whatever the machine


class LiveServer:
    def __init__(self, folder: Path, *words: str, token: str | None = None) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ROTTA_CACHE": str(folder / "cache")}
        environment.pop("ROTTA_TOKEN", None)
        if token is not None:
            environment["ROTTA_TOKEN"] = token
        self.token = token
        self.log = folder / f"log-{time.monotonic_ns()}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "rotta", "serve", "--port", "0", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment,
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, self.log.read_text()
        self.url = found[0]

    def client(self, patience: float = 0.0) -> Client:
        return Client(self.url, token=self.token, patience=patience, timeout=PATIENCE)

    def limit_file_size(self, size: int) -> None:
        """As if the disk were full beyond that."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def live_server(folder: Path, *words: str, token: str | None = None) -> Iterator[LiveServer]:
    server = LiveServer(folder, *words, token=token)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def in_threads(work: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Do all at once; what went wrong."""
    wrong: list[BaseException] = []

    def careful(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=careful, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def digits(count: int, start: int = 0) -> Tensor:
    """uint8, (count, 3, 32, 32)."""
    return _digits()[start : start + count]


@cache
def _digits() -> Tensor:
    return load_dataset("digits").domain("clean").images(np.arange(100))
