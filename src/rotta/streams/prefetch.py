"""Prepare the next items in one background thread while the present one is used."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """The last entry of the queue: why nothing follows."""

    error: BaseException | None


def prefetched(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """Yield what ``items`` yields, prepared up to ``depth`` items ahead.

    The thread starts with the first item and is gone when the iteration ends, fails, or is
    closed (as Python does when the last reference to the iterator goes). An exception in
    ``items`` is raised here, in its turn, with the traceback of where it happened.

    Args:
        items: Run in the thread, and nowhere else.
        depth: How many finished items may wait; 0 for no thread.

    Example:
        >>> list(prefetched(iter("abc"), depth=2))
        ['a', 'b', 'c']
    """
    if depth == 0:
        yield from items
        return
    queue: Queue[T | _End] = Queue(maxsize=depth)
    abandoned = Event()
    # A daemon: an iteration left suspended must not keep the interpreter from exiting.
    thread = Thread(target=_fill, args=(queue, items, abandoned), name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(entry := queue.get(), _End):
            yield entry
        if entry.error is not None:
            raise entry.error
    finally:
        abandoned.set()
        _drain(queue)
        thread.join()


def _fill(queue: "Queue[T | _End]", items: Iterator[T], abandoned: Event) -> None:
    error = None
    try:
        for item in items:
            if abandoned.is_set():
                return
            queue.put(item)
    except BaseException as caught:
        error = caught
    if not abandoned.is_set():
        queue.put(_End(error))


def _drain(queue: "Queue[T | _End]") -> None:
    # Each put follows a look at the event, so at most one is still to come: one free place is
    # all that the thread needs to notice.
    try:
        while True:
            queue.get_nowait()
    except Empty:
        return
