"""Where streams are kept that have no place in memory: what a pool asks of it."""

import threading
from typing import Protocol


class StoreError(RuntimeError):
    """A store could not read or write; what it held before, and what memory holds, is intact."""


class StateStore(Protocol):
    """States by name. What it raises reaches the caller as :class:`StoreError`.

    A pool calls it while it holds its lock, from whichever thread uses the pool.
    """

    def get(self, name: str) -> bytes | None:
        """What was put last, or None."""

    def put(self, name: str, data: bytes) -> None:
        """Keep it, in place of what was there; completely or not at all."""

    def delete(self, name: str) -> None:
        """Forget it; one that is not there is no mistake."""

    def names(self) -> list[str]:
        """All that it holds."""


class MemoryStore:
    """A store that ends with the process.

    Example:
        >>> store = MemoryStore()
        >>> store.put("a", b"state")
        >>> store.get("a"), store.get("b"), store.names()
        (b'state', None, ['a'])
    """

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        """What was put last, or None."""
        with self._lock:
            return self._states.get(name)

    def put(self, name: str, data: bytes) -> None:
        """Keep it, in place of what was there."""
        with self._lock:
            self._states[name] = data

    def delete(self, name: str) -> None:
        """Forget it."""
        with self._lock:
            self._states.pop(name, None)

    def names(self) -> list[str]:
        """All that it holds."""
        with self._lock:
            return list(self._states)
