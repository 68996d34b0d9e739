"""States in one SQLite file: nothing to install, nothing to run."""

import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from rotta.pool import StoreError
from rotta.serve.stores.base import Store

Result = TypeVar("Result")

_TABLE = "CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, state BLOB NOT NULL)"


class SQLiteStore(Store):
    """A database with one table, ``streams``, in WAL mode.

    One process at a time: a second one would overwrite what the first has learnt. Reading it with
    other tools, and ``sqlite3 FILE '.backup COPY'``, is possible while it is open.

    Args:
        path: Of the file; ``FILE.lock`` appears beside it.

    Raises:
        ValueError: Another process has it open, or it is something else than a store.
        StoreError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._claim = _claimed(path)
        try:
            self._database = _opened(path)
        except BaseException:
            self._claim.close()
            raise

    def get(self, name: str) -> bytes | None:
        """What was last put under ``name``."""
        query = "SELECT state FROM streams WHERE name = ?"
        row = self._safely(lambda: self._database.execute(query, (name,)).fetchone())
        return None if row is None else bytes(row[0])

    def names(self) -> list[str]:
        """Of all that is kept, in alphabetical order."""
        query = "SELECT name FROM streams ORDER BY name"
        return [row[0] for row in self._safely(lambda: self._database.execute(query).fetchall())]

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Put several at once, and remove those whose value is ``None``: all of them or none."""
        put = [(name, data) for name, data in changes.items() if data is not None]
        gone = [(name,) for name, data in changes.items() if data is None]

        def transaction() -> None:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany("REPLACE INTO streams VALUES (?, ?)", put)
                self._database.executemany("DELETE FROM streams WHERE name = ?", gone)

        self._safely(transaction)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._database.close()
            self._claim.close()

    def _safely(self, operation: Callable[[], Result]) -> Result:
        with self._lock:
            try:
                return operation()
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self.path} cannot be read or written ({error}): make room on its disk, or "
                    "check its rights"
                ) from error


def _opened(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")  # a save outlives a power cut
            database.execute(_TABLE)
            database.execute("SELECT name, state FROM streams LIMIT 1").fetchone()
        except BaseException:
            database.close()
            raise
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and "no such column" not in str(error):
            raise StoreError(f"{path} cannot be opened ({error}): give another --store") from error
        raise ValueError(
            f"{path} is no store of rotta ({error}): give --store another name"
        ) from error
    return database


def _claimed(path: Path) -> sqlite3.Connection:
    """A lock on the file beside, which the operating system releases however the process ends."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        claim = sqlite3.connect(beside, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            claim.execute("BEGIN EXCLUSIVE")
        except BaseException:
            claim.close()
            raise
    except sqlite3.Error as error:
        if "locked" in str(error):
            raise ValueError(
                f"{path} is in use by another server: stop that one, or give this one another "
                "--store"
            ) from error
        raise StoreError(f"{beside} cannot be written ({error}): give another --store") from error
    return claim
