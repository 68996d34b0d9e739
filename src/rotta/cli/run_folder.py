"""Where a run goes: a folder of its own, in which nothing is written over."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REQUEST = "run.json"
CHECKPOINTS = "checkpoints"
FILES = ("result.json", REQUEST, "stream.png", "report.html")
_MOST_SEEDS_IN_A_NAME = 5


def check_vacant(folder: Path) -> None:
    """See before anything is computed whether a run can go there.

    Raises:
        ValueError: It cannot; the message says what to do.
    """
    if folder == Path():
        raise ValueError("--out is the current folder: name a new one for the run")
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path} is a file: give --out another name")
    for name in FILES:
        if (folder / name).exists():
            raise ValueError(
                f"{folder} holds a {name} already: give --out another name, or remove it"
            )


def claim(wanted: Path | None, name: str) -> Path:
    """Make the folder of a run.

    Args:
        wanted: What the user asked for.
        name: If that is nothing: ``runs/<name>``, or with a number after it. Of two runs that
            start at once, each gets its own.

    Raises:
        ValueError: It cannot be made.
    """
    try:
        if wanted is not None:
            check_vacant(wanted)
            wanted.mkdir(parents=True, exist_ok=True)
            return wanted
        return _next_free(Path("runs") / name)
    except OSError as error:
        raise ValueError(
            f"cannot make the folder of the run ({error}): give --out another place"
        ) from error


def write_first(folder: Path, request: str) -> None:
    """Write a run's request, by which the folder becomes its own; of two, one is refused.

    The file is never replaced: its lock, see :func:`held`, would stay with the old one.

    Args:
        folder: Of the run.
        request: What the file shall say.

    Raises:
        ValueError: There is one already; it is untouched.
        OSError: It cannot be written; then it is not there.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> folder.mkdir()
        >>> write_first(folder, "mine")
        >>> write_first(folder, "yours")
        Traceback (most recent call last):
        ValueError: another run has just begun in ...run: give --out another name
    """
    path = folder / REQUEST
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise ValueError(
            f"another run has just begun in {folder}: give --out another name"
        ) from error
    try:
        with file:
            file.write(request)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Within, no other process works on a run whose request is written.

    Raises:
        ValueError: Another one does.
    """
    if sys.platform == "win32":  # knows no such locks
        yield
        return
    import fcntl

    with (folder / REQUEST).open("rb+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"another process is working on {folder}: wait for it to end, or end it"
            ) from error
        yield


def run_name(dataset: str, setting: str, seeds: Sequence[int]) -> str:
    """What a run is called unless the user says otherwise.

    Example:
        >>> run_name("domains:/data/pacs", "ptta", [0, 1])
        'domains-pacs-ptta-seeds0-1'
        >>> run_name("digits-c", "ptta", range(100))
        'digits-c-ptta-seeds0-and-99-more'
    """
    kind, _, path = dataset.partition(":")
    data = f"{kind}-{Path(path).name}" if path else kind
    if len(seeds) == 1:
        return f"{data}-{setting}-seed{seeds[0]}"
    numbers = "-".join(str(seed) for seed in seeds)
    if len(seeds) > _MOST_SEEDS_IN_A_NAME:
        numbers = f"{seeds[0]}-and-{len(seeds) - 1}-more"
    return f"{data}-{setting}-seeds{numbers}"


def _next_free(wanted: Path) -> Path:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    folder, number = wanted, 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")
