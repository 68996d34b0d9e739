"""The two folders: ``$ROTTA_HOME`` is only read, ``$ROTTA_CACHE`` is read and written."""

import os
from pathlib import Path


def home() -> Path | None:
    """``$ROTTA_HOME``, or ``None`` if it is not set. Nothing is ever written there."""
    value = os.environ.get("ROTTA_HOME")
    return Path(value).expanduser() if value else None


def cache() -> Path:
    """``$ROTTA_CACHE``, or ``rotta`` in the user's cache folder. It need not exist yet."""
    value = os.environ.get("ROTTA_CACHE")
    if value:
        return Path(value).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rotta"


def find(relative: str) -> Path | None:
    """The first existing ``relative`` path (``data/…``, ``models/…``), home before cache."""
    return next((path for path in places(relative) if path.exists()), None)


def places(relative: str) -> list[Path]:
    """Where ``relative`` may lie, in the order in which it is looked for."""
    return [folder / relative for folder in (home(), cache()) if folder is not None]
