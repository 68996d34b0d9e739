"""States in one SQLite file: nothing to install, nothing to run."""

import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeVar

from rotta.pool import StoreError
from rotta.serve.stores.base import Store

Result = TypeVar("Result")

_TABLE = "CREATE TABLE IF NOT EXISTS streams (name TEXT PRIMARY KEY, state BLOB NOT NULL)"


class SQLiteStore(Store):
    """A database with one table, ``streams``, in WAL mode.

    One process at a time: a second one would overwrite what the first has learnt. Reading it with
    other tools, and ``sqlite3 FILE '.backup COPY'``, is possible while it is open. Whoever reads
    has a connection of its own, and so does not wait for what is being written.

    Args:
        path: Of the file; ``FILE.lock`` appears beside it. A file is the same one by whichever
            name: links are followed, and it is locked itself as well, for hard links and mounts.

    Raises:
        ValueError: Another process has it open, or it is something else than a store.
        StoreError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path = path.resolve()
        _make_folder(path.parent)
        with ExitStack() as held:
            held.enter_context(closing(_claimed(path)))
            _lock(path, held)
            self._writing = held.enter_context(closing(_Connection(path)))
            self._reading = held.enter_context(closing(_Connection(path)))
            self._own = _identities(path)
            self._held = held.pop_all()

    def get(self, name: str) -> bytes | None:
        """What was last put under ``name``."""
        query = "SELECT state FROM streams WHERE name = ?"
        row = self._reading.do(lambda database: database.execute(query, (name,)).fetchone())
        return None if row is None else bytes(row[0])

    def names(self) -> list[str]:
        """Of all that is kept, in alphabetical order."""
        query = "SELECT name FROM streams ORDER BY name"
        rows = self._reading.do(lambda database: database.execute(query).fetchall())
        return [row[0] for row in rows]

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Put several at once, and remove those whose value is ``None``: all of them or none."""
        put = [(name, data) for name, data in changes.items() if data is not None]
        gone = [(name,) for name, data in changes.items() if data is None]

        def transaction(database: sqlite3.Connection) -> None:
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("REPLACE INTO streams VALUES (?, ?)", put)
                database.executemany("DELETE FROM streams WHERE name = ?", gone)

        self._check_in_place()
        self._writing.do(transaction)

    def close(self) -> None:
        """Let go of the file."""
        self._held.close()

    def _check_in_place(self) -> None:
        """SQLite would go on to write into a file that was removed, and all would be lost."""
        if _identities(self.path) != self._own:
            raise StoreError(
                f"{self.path}, or one of the files beside it, was removed or replaced: put them "
                "back as they were, or start the server again"
            )


class _Connection:
    """To the database, for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database = _opened(path)

    def do(self, operation: Callable[[sqlite3.Connection], Result]) -> Result:
        with self._lock:
            try:
                return operation(self._database)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self._path} cannot be read or written ({error}): make room on its disk, or "
                    "check its rights"
                ) from error

    def close(self) -> None:
        with self._lock:
            self._database.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder} is no folder, and cannot be made one ({error}): give another --store"
        ) from error


def _identities(path: Path) -> list[tuple[int, int] | None]:
    """Which files lie under the names of the database, its log and its lock."""
    return [_identity(path.with_name(path.name + end)) for end in ("", "-wal", ".lock")]


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _opened(path: Path) -> sqlite3.Connection:
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")  # a save outlives a power cut
            with database:
                database.execute("BEGIN IMMEDIATE")
                database.execute(_TABLE)
                database.execute("SELECT name, state FROM streams LIMIT 1").fetchone()
                database.execute("PRAGMA user_version = 1")  # fails if nothing can be written
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
            raise _in_use(path) from error
        raise StoreError(f"{beside} cannot be written ({error}): give another --store") from error
    return claim


def _lock(path: Path, held: ExitStack) -> None:
    """Lock the file itself, by whichever name others come to it; it is made if it is not there.

    By ``flock``, which does not meet the locks of SQLite. Those are gone as soon as their process
    closes any descriptor of the file: this one is closed after all connections, and not at all if
    the file is refused, since the other server may be in this very process.

    Args:
        path: Of the file.
        held: Closes the descriptor; what is put there later is closed before.
    """
    if sys.platform == "win32":  # knows no such locks
        return
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _in_use(path) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be opened ({error}): give another --store") from error
    held.callback(os.close, descriptor)


def _in_use(path: Path) -> ValueError:
    return ValueError(
        f"{path} is in use by another server: stop that one, or give this one another --store"
    )
