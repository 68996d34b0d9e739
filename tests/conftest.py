"""The same surroundings for every test, whatever machine it runs on."""

import os
import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

from rotta.datasets import digits
from rotta.datasets.arrays import Pixels
from rotta.datasets.digit_views import moved_views
from rotta.nn import native

# One thread: two test processes with two each would wait for each other on two cores; forked ones
# cannot use OpenMP's threads at all, and their sums are compared with ours, bit by bit.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same for processes that tests start

# no clock, and the same examples everywhere
settings.register_profile("rotta", deadline=None, derandomize=True)
settings.load_profile("rotta")

# colours and widths that a terminal or a CI system asks for would get into what tests read
for name in ("FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "COLUMNS"):
    os.environ.pop(name, None)

# a shell that starts tests in the background has Ctrl-C ignored, and so would what they start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard_again() -> Iterator[None]:
    """A command that was stopped ends deaf to Ctrl-C, and what later tests start would be too."""
    heard = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, heard)


@pytest.fixture(scope="session", autouse=True)
def _digits_are_moved_once() -> Iterator[None]:
    """Most tests that run something load the digits, and would compute the same views again."""
    known: dict[tuple[bytes, int], Pixels] = {}

    def remembered(images: Pixels, views: int) -> Pixels:
        key = images.tobytes(), views
        if key not in known:
            known[key] = moved_views(images, views)
            known[key].flags.writeable = False  # all have the same
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "moved_views", remembered)
        yield


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    """A Ray of two cores in this process, for one file of tests."""
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


@pytest.fixture(params=["our kernels", "PyTorch's kernels"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Normalise on a CPU by our kernels, then by PyTorch's, as where ours were not compiled."""
    way = str(request.param)
    if way == "PyTorch's kernels":
        monkeypatch.setattr(native, "library", lambda: None)
    elif native.library() is None:
        pytest.skip("kernels for CPUs were not compiled: needs a C compiler")
    return way
