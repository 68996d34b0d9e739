"""Files that are either complete or not there."""

import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BROKEN_OFF_AFTER = 3600  # seconds in which nobody wrote
_TOKEN_BYTES = 4  # of which each becomes two letters
_LONGEST_NAME = 255  # bytes, where most file systems have their limit
_LONGEST_SUFFIX = 100  # bytes


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``, else it vanishes.

    The content is flushed to the disk before the rename, so that a crash leaves either the old
    file or the new one. Who may read and write ``path`` stays as it was, if there was one; what is
    half written is its owner's alone then.

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
    path = _resolved(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(f"{path} is not an ordinary file: give another name")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, mode = _beside(path), _mode_of(path)
    temporary.touch(0o666 if mode is None else 0o600, exist_ok=False)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            if mode is not None:
                with suppress(OSError):  # some file systems know one mode for all files
                    temporary.chmod(mode)
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
        with suppress(FileNotFoundError):
            path.lstat()  # raises where the name is too long, which that of the probe is not
        probe = _beside(_resolved(path))
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise OSError(f"{path} cannot be written ({error}): give another place") from error


def clear_away(path: Path) -> None:
    """Remove what processes that died while they were :func:`replacing` a file have left beside it.

    Nobody has written there for an hour then. What cannot be removed stays.
    """
    with suppress(OSError):  # a folder may be written to and not read
        path = path.resolve()
        before, after = map(re.escape, _around_the_token(path))
        temporary = re.compile(rf"{before}[0-9a-f]{{8}}{after}")
        for left in path.parent.iterdir():
            if temporary.fullmatch(left.name):
                with suppress(OSError):  # somebody else was quicker
                    if time.time() - left.stat().st_mtime > _BROKEN_OFF_AFTER:
                        left.unlink()


def _resolved(path: Path) -> Path:
    """What a link points to, which is replaced, and not the link."""
    try:
        return path.resolve()
    except RuntimeError as error:  # before Python 3.13, where links lead in a circle
        raise OSError(f"{path} leads nowhere ({error}): give another name") from error


def _mode_of(path: Path) -> int | None:
    """Who may do what with a file; none if it is not there."""
    return stat.S_IMODE(path.stat().st_mode) if path.is_file() else None


def _beside(path: Path) -> Path:
    """A new name in the same folder, which :func:`clear_away` knows."""
    before, after = _around_the_token(path)
    return path.with_name(f"{before}{secrets.token_hex(_TOKEN_BYTES)}{after}")


def _around_the_token(path: Path) -> tuple[str, str]:
    """How names of temporary files begin and end; of a long name, the beginning is a digest.

    The suffix is kept, by which writers of images and arrays choose what they write.
    """
    whole = f".{path.name}.", path.suffix
    if len(os.fsencode("".join(whole))) + 2 * _TOKEN_BYTES <= _LONGEST_NAME:
        return whole
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()
    return f".{digest}.", path.suffix if len(os.fsencode(path.suffix)) <= _LONGEST_SUFFIX else ""
