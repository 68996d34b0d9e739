"""Files that are either complete or not there."""

import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BROKEN_OFF_AFTER = 3600  # seconds in which nobody wrote


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``, else it vanishes.

    The content is flushed to the disk before the rename, so that a crash leaves either the old
    file or the new one.

    Raises:
        OSError: Something that is not an ordinary file is there.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replacing(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> [p.name for p in folder.iterdir()]
        ['a.txt']
    """
    try:
        path = path.resolve()  # what a link points to is replaced, not the link
    except RuntimeError as error:  # before Python 3.13, where links lead in a circle
        raise OSError(f"{path} leads nowhere ({error}): give another name") from error
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(f"{path} is not an ordinary file: give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Find out before hours of work whether a file can be written at their end.

    Raises:
        OSError: It cannot; the message says what to do.

    Example:
        >>> check_writable(Path("/dev/null/a.txt"))
        Traceback (most recent call last):
        OSError: /dev/null/a.txt cannot be written (...): give another place
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error}): give another place") from error


def clear_away(path: Path) -> None:
    """Remove what processes that died while they were :func:`replacing` a file have left beside it.

    Nobody has written there for an hour then. What cannot be removed stays.
    """
    path = path.resolve()
    temporary = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}{re.escape(path.suffix)}")
    for left in path.parent.iterdir():
        if temporary.fullmatch(left.name):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _BROKEN_OFF_AFTER:
                    left.unlink()
