"""Fetching published files: resumed where they stopped, checked, and complete or not there."""

import hashlib
import http.client
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rotta import folders
from rotta.progress import Progress

Ask = Callable[[str], bool]
"""Is shown a question; true means go ahead."""

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Archive:
    """A published tar file that unpacks to one folder under ``data/``."""

    title: str
    url: str
    md5: str
    size: str
    """For the person who is asked: ``"170 MB"``."""
    folder: str

    @property
    def relative(self) -> str:
        """Where the folder lies below ``$ROTTA_HOME`` or ``$ROTTA_CACHE``."""
        return f"data/{self.folder}"


def find(archive: Archive, files: Iterable[str] = ()) -> Path | None:
    """The archive's folder in ``$ROTTA_HOME`` or ``$ROTTA_CACHE``: the first with all ``files``."""
    wanted = tuple(files)
    for folder in folders.places(archive.relative):
        if folder.is_dir() and all((folder / file).is_file() for file in wanted):
            return folder
    return None


def fetch(archive: Archive, ask: Ask | None, *, progress: Progress | None = None) -> Path | None:
    """Download and unpack the archive into ``$ROTTA_CACHE``, if ``ask`` agrees.

    Args:
        archive: What is wanted.
        ask: Asked once, before anything is downloaded; ``None`` never downloads.
        progress: Called with the bytes done and the bytes in all.

    Returns:
        The folder, or ``None`` if nothing was to be downloaded.
    """
    target = folders.cache() / archive.relative
    question = f"download {archive.title} ({archive.size}) from {archive.url} to {target}?"
    packed = target.parent / archive.url.rsplit("/", 1)[-1]
    # one may have been put there by hand, as the message of a failed download suggests
    if not packed.is_file() or md5_of(packed) != archive.md5:
        if ask is None or not ask(question):
            return None
        download(archive.url, packed, archive.md5, progress=progress)
    unpack(packed, target)
    packed.unlink(missing_ok=True)
    return target


def missing(archive: Archive, files: Iterable[str] = ()) -> FileNotFoundError:
    """The error for what is nowhere: which files, looked for where, and how to get them."""
    what = ", ".join(files) or "its folder"
    looked = " and ".join(str(place) for place in folders.places(archive.relative))
    return FileNotFoundError(
        f"{archive.title} ({what}) was not found: looked in {looked}. Allow the download (--yes), "
        f"or fetch {archive.url} ({archive.size}, md5 {archive.md5}) and unpack it in "
        f"{(folders.cache() / archive.relative).parent}"
    )


def download(url: str, target: Path, md5: str, *, progress: Progress | None = None) -> None:
    """Fetch ``url`` to ``target``, which appears only when it is whole and its md5 is right.

    What arrives is kept in ``<target>.part``; a later call asks the server for the rest and
    starts over if the server cannot do that.

    Raises:
        ConnectionError: The server could not be reached or stopped early. The message names the
            address and the place; the part that arrived stays, to be continued.
        ValueError: The whole file arrived, but with another md5; nothing is kept.
    """
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(url, part, progress)
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"{target.name} could not be downloaded ({error}). Try again, which continues where "
            f"it stopped; or fetch {url} by other means and put it at {target}"
        ) from error
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise ValueError(
            f"{url} arrived with md5 {found} instead of {md5}; it was deleted. Try again, or "
            f"fetch it by other means and put it at {target}"
        )
    part.replace(target)


def md5_of(path: Path) -> str:
    """The md5 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def unpack(packed: Path, target: Path) -> None:
    """Unpack a tar file whose one top folder is named like ``target``, and put it there.

    Members that would land outside, links that lead outside and device files are refused. The
    folder is filled beside ``target`` and renamed, so a half unpacked one is never found; of a
    folder that is there already, each file is replaced.

    Raises:
        ValueError: The file is no tar file, holds something unsafe, or lacks the folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        try:
            with tarfile.open(packed) as tar:
                tar.extractall(beside, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{packed} cannot be unpacked ({error}); delete it and fetch it again"
            ) from error
        content = Path(beside) / target.name
        if not content.is_dir():
            raise ValueError(f"{packed} holds no folder {target.name}; is it the right file?")
        _move(content, target)


def _move(content: Path, target: Path) -> None:
    """Rename a folder; where ``target`` exists, replace its files one by one instead.

    It exists if another process was faster, or if a person deleted a damaged file of it.
    """
    try:
        content.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        for file in (path for path in content.rglob("*") if path.is_file()):
            place = target / file.relative_to(content)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    """Bring ``part`` to its full length, continuing it where the server can."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
                raise
        return  # nothing is left to fetch; the checksum says whether it is the right thing
    with response:
        continued = response.status == http.HTTPStatus.PARTIAL_CONTENT
        have = have if continued else 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else 0
        with part.open("ab" if continued else "wb") as file:
            while chunk := response.read1(_CHUNK):
                file.write(chunk)
                have += len(chunk)
                if progress:
                    progress(have, total)
    if have < total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")
