"""A store by its address, as ``--store`` takes it."""

from pathlib import Path

from rotta.serve.stores.base import Store
from rotta.serve.stores.sqlite_file import SQLiteStore


def open_store(url: str | Path) -> Store:
    """Open a store, and make it if it is not there yet.

    Args:
        url: A file, which becomes an SQLite database, or ``redis://host:port/number`` (also
            ``rediss://`` and ``unix://``).

    Raises:
        ValueError: It is neither, or another server has that file open.
        ModuleNotFoundError: It is Redis, and the Python package for that is not installed.
        StoreError: There is no such server, or the file cannot be written.

    Example:
        >>> import tempfile
        >>> store = open_store(Path(tempfile.mkdtemp()) / "state.sqlite")
        >>> store.put("camera", b"what it has learnt")
        >>> store.names(), store.get("camera"), store.get("other")
        (['camera'], b'what it has learnt', None)
        >>> store.close()
    """
    text = str(url)
    scheme, separator, _ = text.partition("://")
    if not separator:
        return SQLiteStore(Path(url).expanduser())
    if scheme in ("redis", "rediss", "unix"):
        from rotta.serve.stores.redis_hash import RedisStore

        return RedisStore(text)
    raise ValueError(
        f"{text} is no store that is known: give the name of a file, or redis://host:port/number"
    )
