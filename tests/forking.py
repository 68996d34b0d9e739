"""Processes that begin where a test is: what is imported and made already is there at once."""

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
import torch

forks = pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(),
    reason="forks processes that learn, as only Linux without a GPU allows",
)


def forked(work: Callable[..., None], *arguments: Any, daemon: bool = True) -> BaseProcess:
    """Start a process that does the work.

    Args:
        work: Called there; an exception ends the process with exit code 1.
        arguments: Given to it as they are.
        daemon: Whether it ends with this one; then it cannot have processes of its own.
    """
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_alone, args=(work, *arguments), daemon=daemon)
    process.start()
    return process


def _alone(work: Callable[..., None], *arguments: Any) -> None:
    # OpenMP would wait for threads that were there before the fork, and are not here
    torch.set_num_threads(1)
    work(*arguments)
