"""Files that are either complete or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it becomes ``path``, else it vanishes.

    The content is flushed to the disk before the rename, so that a crash leaves either the old
    file or the new one.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replacing(folder / "a.txt") as temporary:
        ...     _ = temporary.write_text("whole")
        >>> [p.name for p in folder.iterdir()]
        ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; a finished one gets the permissions any new file would
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
