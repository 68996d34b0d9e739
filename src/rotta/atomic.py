"""Files that are either complete or not there."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
    path = path.resolve()  # what a link points to is replaced, not the link
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
