"""Saving that nobody waits for, and that goes on trying when a store fails."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from rotta.pool import StoreError
from rotta.serve.stores.base import Store

_LOG = logging.getLogger("rotta.serve")
_AT_ONCE = 64  # streams in one transaction: large enough to share a flush, small for a time limit
_BYTES_AT_ONCE = 64 << 20  # of them; a single larger one goes alone
_NO_READS = 2.0  # seconds
_HURRIED = 0.1  # seconds between attempts when somebody waits for them


@dataclass(frozen=True)
class Saving:
    """How saving goes."""

    problem: str | None
    """Why the last attempt failed; ``None`` if it did not."""
    waiting: int
    """Streams whose newest state is in memory only."""
    waiting_bytes: int
    failures: int
    """Attempts that failed since the start."""
    age: float | None
    """Seconds since something was last written; ``None`` if nothing was yet."""


@dataclass(frozen=True)
class _Change:
    data: bytes | None
    """``None`` to forget."""
    put_at: float

    def __len__(self) -> int:
        return len(self.data or b"")


class WriteBehind:
    """A store for a pool that does not wait: a thread writes, and tries again for ever.

    What is put is in memory until it is written, and is read from there; only the newest state of
    each stream is held. If the store fails or is slow for long, a bound is reached, and what would
    go beyond it is refused: the pool then keeps the stream in its own memory.

    Args:
        store: Where it is written to; closed by :meth:`close`.
        first_wait: Seconds before the second attempt; every failure doubles it.
        longest_wait: Seconds that it grows to.
        bound: Bytes to hold in memory.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from rotta.serve.stores import open_store
        >>> behind = WriteBehind(open_store(Path(tempfile.mkdtemp()) / "state.sqlite"))
        >>> behind.put("camera", b"what it has learnt")
        >>> behind.get("camera"), behind.close()
        (b'what it has learnt', True)
    """

    def __init__(
        self,
        store: Store,
        *,
        first_wait: float = 0.5,
        longest_wait: float = 30.0,
        bound: int = 1 << 30,
    ) -> None:
        self._store = store
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._bound = bound
        self._changed = threading.Condition()
        self._waiting: dict[str, _Change] = {}
        self._writing: dict[str, _Change] = {}
        self._saved_as_of: dict[str, float] = {}
        self._held_bytes = 0  # of both
        self._problem: str | None = None
        self._failures = 0
        self._read_problem = ""
        self._no_reads_before = -math.inf
        self._written_at: float | None = None
        self._hurry = False  # flush and close do not wait out a pause
        self._closing = False
        self._patience = 0.0  # seconds that a put waits for room
        self._thread = threading.Thread(target=self._run, name="saving", daemon=True)
        self._thread.start()

    def get(self, name: str) -> bytes | None:
        """What was last put under ``name``, whether it is written yet or not.

        Raises:
            StoreError: It is in the store alone, which cannot be read now.
        """
        with self._changed:
            for held in (self._waiting, self._writing):
                if name in held:
                    return held[name].data
        return self._read(name)

    def put(self, name: str, data: bytes) -> None:
        """Keep ``data`` under ``name``; it is written soon.

        Raises:
            StoreError: The store has failed, or was slow, for so long that memory for this is
                short.
        """
        self._hold(name, data)

    def delete(self, name: str) -> None:
        """Forget ``name``; this takes no room."""
        self._hold(name, None)

    def wait_for_room(self, patience: float = 10.0) -> None:
        """From now on, :meth:`put` waits instead of refusing, as long as the store gets on.

        Args:
            patience: Seconds without anything being written after which it refuses even so.
        """
        with self._changed:
            self._patience = patience
            self._hurry = True
            self._changed.notify_all()

    def names(self) -> list[str]:
        """Of all that is kept, written or not, in alphabetical order.

        Raises:
            StoreError: The store cannot be read now.
        """
        with self._changed:  # first: what is written meanwhile is in both, not in neither
            held = {**self._writing, **self._waiting}
        stored = self._store.names()
        gone = {name for name, change in held.items() if change.data is None}
        return sorted({*stored, *held} - gone)

    def saved_as_of(self, name: str) -> float | None:
        """When that state of a stream was put, in seconds since 1970, that is safe in the store.

        Only what was written since the start is known; ``None`` if nothing was.
        """
        with self._changed:
            return self._saved_as_of.get(name)

    @property
    def saving(self) -> Saving:
        """How it goes."""
        with self._changed:
            held = len({**self._writing, **self._waiting})
            written = self._written_at
            return Saving(
                problem=self._problem,
                waiting=held,
                waiting_bytes=self._held_bytes,
                failures=self._failures,
                age=None if written is None else time.monotonic() - written,
            )

    def flush(self, patience: float) -> bool:
        """Wait until all is written; whether it is.

        Args:
            patience: Seconds without anything being written after which it is given up.
        """
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            done = self._wait_for(lambda: not self._waiting and not self._writing, patience)
            self._hurry = False
            return done

    def close(self, patience: float = 10.0) -> bool:
        """Write all, see :meth:`flush`, and close the store; whether all is written."""
        done = self.flush(patience)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._store.close()
        return done

    def _read(self, name: str) -> bytes | None:
        """Ask the store; not again soon if it fails, which may have taken long enough."""
        if time.monotonic() < self._no_reads_before:
            raise StoreError(self._read_problem)
        try:
            return self._store.get(name)
        except StoreError as error:
            self._read_problem = str(error)
            self._no_reads_before = time.monotonic() + _NO_READS
            raise

    def _hold(self, name: str, data: bytes | None) -> None:
        change = _Change(data, time.time())
        with self._changed:
            if not self._wait_for(lambda: self._has_room(name, change), self._patience):
                reason = self._problem or "the store is slower than what is to be saved: wait"
                raise StoreError(f"nothing more can be saved now: {reason}")
            self._held_bytes += len(change) - len(self._waiting.get(name, b""))
            self._waiting[name] = change
            self._changed.notify_all()

    def _has_room(self, name: str, change: _Change) -> bool:
        others = self._held_bytes - len(self._waiting.get(name, b""))
        return not len(change) or others + len(change) <= self._bound

    def _wait_for(self, holds: Callable[[], bool], patience: float) -> bool:
        """Wait for something as long as the store gets on; whether it came."""
        while not (held := self._changed.wait_for(holds, patience)):
            since = math.inf if self._written_at is None else time.monotonic() - self._written_at
            if since >= patience:
                break
        return held

    def _run(self) -> None:
        wait = self._first_wait
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                self._writing = self._next()
                for name in self._writing:
                    del self._waiting[name]
            problem = self._attempt({name: change.data for name, change in self._writing.items()})
            self._account(problem)
            if problem is None:
                wait = self._first_wait
            else:
                self._pause(wait)
                wait = min(2 * wait, self._longest_wait)

    def _next(self) -> dict[str, _Change]:
        """What fits into one transaction of what waits, the oldest first."""
        chosen: dict[str, _Change] = {}
        size = 0
        for name, change in islice(self._waiting.items(), _AT_ONCE):
            size += len(change)
            if chosen and size > _BYTES_AT_ONCE:
                break
            chosen[name] = change
        return chosen

    def _attempt(self, changes: Mapping[str, bytes | None]) -> str | None:
        try:
            self._store.write(changes)
        except StoreError as error:
            return str(error)
        except Exception as error:  # a fault of ours must not end saving for ever
            _LOG.exception("saving failed in a way that nobody thought of")
            return f"{type(error).__name__}: {error}"
        return None

    def _account(self, problem: str | None) -> None:
        with self._changed:
            if problem is None:
                self._written_at = time.monotonic()
                self._note_written()
            else:
                self._failures += 1
                self._waiting = {**self._writing, **self._waiting}  # what is newer stays
            self._writing = {}
            self._held_bytes = sum(map(len, self._waiting.values()))
            changed, self._problem = problem != self._problem, problem
            left = len(self._waiting)
            self._changed.notify_all()
        if changed and problem is None:
            _LOG.warning("saving works again")
        elif changed:
            _LOG.error("%d streams wait to be saved, in memory: %s", left, problem)

    def _note_written(self) -> None:
        for name, change in self._writing.items():
            if change.data is None:
                self._saved_as_of.pop(name, None)
            else:
                self._saved_as_of[name] = change.put_at

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._hurry, seconds)
            if self._hurry:
                self._changed.wait_for(lambda: self._closing, min(seconds, _HURRIED))
