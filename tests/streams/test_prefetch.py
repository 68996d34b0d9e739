import gc
import threading
import traceback
from collections.abc import Iterator

import pytest

from rotta.streams.prefetch import prefetched


def prefetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@pytest.mark.parametrize("depth", [0, 1, 2, 100])
def test_yields_everything_in_order(depth: int) -> None:
    assert list(prefetched(iter(range(50)), depth)) == list(range(50))
    assert prefetch_threads() == []


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("taken", [1, 2, 4])
def test_an_abandoned_iteration_leaves_no_thread(depth: int, taken: int) -> None:
    for length in range(taken, taken + 8):  # the thread may wait anywhere, also at its end
        ready = prefetched(iter(range(length)), depth)
        for _ in range(taken):
            next(ready)
        ready.close()
        assert prefetch_threads() == []


def test_a_forgotten_iteration_leaves_no_thread() -> None:
    ready = prefetched(iter(range(1000)), depth=1)
    assert next(ready) == 0
    assert len(prefetch_threads()) == 1
    del ready
    gc.collect()
    assert prefetch_threads() == []


def test_never_runs_further_ahead_than_asked() -> None:
    started = []

    def items() -> Iterator[int]:
        for number in range(100):
            started.append(number)
            yield number

    ready = prefetched(items(), depth=3)
    for number in range(10):
        assert next(ready) == number
        # taken, waiting in the queue, and the one in the thread's hand
        assert len(started) <= (number + 1) + 3 + 1
    ready.close()


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_errors_arrive_in_turn_with_their_origin(depth: int) -> None:
    def breaks_at_the_third() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("disk on fire")

    ready = prefetched(breaks_at_the_third(), depth)
    assert [next(ready), next(ready)] == [1, 2]
    with pytest.raises(OSError, match="disk on fire") as caught:
        next(ready)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "breaks_at_the_third" in frames
    assert prefetch_threads() == []
