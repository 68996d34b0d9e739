"""Which image files make up which domain, and what their classes are called."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ListedFile = tuple[str, int]
"""A file's name, relative to the root with forward slashes, and its class index."""

TEST_SHARE = 0.2
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm"})

_SPLITS = {"train": ("train",), "test": ("test",), "all": ("train", "test")}


@dataclass(frozen=True)
class Listing:
    """What there is, by domain: domains in alphabetical order, entries in a fixed, mixed one."""

    classes: tuple[str, ...]
    entries: dict[str, list[ListedFile]]


def list_domains(root: Path, split: str) -> Listing:
    """List the images of one split, from the list files of ``root`` or else from its folders.

    Args:
        root: The folder.
        split: ``"train"``, ``"test"`` or ``"all"``.

    Raises:
        FileNotFoundError: The folder, a list or a listed image is missing.
        ValueError: What is there does not make a dataset; the message says what and where.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root.absolute()}")
    parts = _SPLITS[split]
    listed = {
        path.stem.rpartition("_")[0]
        for part in _SPLITS["all"]
        for path in root.glob(f"*_{part}.txt")
    }
    listing = _from_lists(root, sorted(listed), parts) if listed else _from_folders(root, parts)
    for entries in listing.entries.values():
        entries.sort(key=lambda entry: _hash(entry[0]))
    return listing


def first_image(root: Path) -> str:
    """The image whose name comes first, in whichever split.

    Training and testing ask for their images at different times; this one is the same for both.
    """
    lists = [path for part in _SPLITS["all"] for path in root.glob(f"*_{part}.txt")]
    if lists:
        listed = {file for path in lists for _, (file, _) in _read_list(path)}
        return next(file for file in sorted(listed) if (root / file).is_file())
    domain = _subfolders(root)[0]
    return _image_files(root, f"{domain}/{_subfolders(root / domain)[0]}")[0]


def is_test_file(relative: str) -> bool:
    """Whether an image of plain folders is for testing, decided by its name alone.

    Example:
        >>> [is_test_file(f"photo/dog/{number}.jpg") for number in range(5)]
        [False, False, True, False, True]
    """
    return _hash(relative) < TEST_SHARE


def _hash(relative: str) -> float:
    """A number in [0, 1) that depends on a file's relative name only."""
    return int.from_bytes(sha256(relative.encode()).digest()[:6]) / 2**48


def _from_folders(root: Path, parts: tuple[str, ...]) -> Listing:
    """``<domain>/<class>/<image>``; every domain must have every class."""
    by_domain = {domain: _subfolders(root / domain) for domain in _subfolders(root)}
    classes = tuple(sorted({name for names in by_domain.values() for name in names}))
    if not classes:
        raise ValueError(
            f"{root} has neither lists such as real_test.txt nor folders <domain>/<class>; "
            "is it the right folder?"
        )
    entries = {}
    for domain, names in by_domain.items():
        absent = [name for name in classes if name not in names]
        if absent:
            raise ValueError(
                f"{root / domain} lacks the class {', '.join(absent)}, which another domain has; "
                "all domains must have the same class folders"
            )
        entries[domain] = [
            (file, label)
            for label, name in enumerate(classes)
            for file in _image_files(root, f"{domain}/{name}")
            if ("test" if is_test_file(file) else "train") in parts
        ]
        if not entries[domain]:
            raise ValueError(f"{root / domain} has no image for the split {'+'.join(parts)}")
    return Listing(classes, entries)


def _subfolders(folder: Path) -> list[str]:
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith((".", "__"))
    )


def _image_files(root: Path, folder: str) -> list[str]:
    """The image files in one class folder, sorted; there must be some."""
    names = sorted(
        entry.name
        for entry in (root / folder).iterdir()
        if entry.suffix.lower() in IMAGE_SUFFIXES and not entry.name.startswith(".")
    )
    if not names:
        raise ValueError(
            f"{root / folder} holds no image ({', '.join(sorted(IMAGE_SUFFIXES))}); "
            "add some or remove it everywhere"
        )
    return [f"{folder}/{name}" for name in names]


def _from_lists(root: Path, domains: list[str], parts: tuple[str, ...]) -> Listing:
    """``<domain>_<part>.txt``; class names come from the folders in the paths.

    Lists of both splits name the classes, so that all splits agree about them. A domain may lack
    a class, as one of DomainNet's does: labels are numbers here, so nothing becomes ambiguous.
    """
    names: dict[int, str] = {}
    entries: dict[str, list[ListedFile]] = {}
    present: dict[str, frozenset[str]] = {}
    for domain in domains:
        entries[domain] = []
        for part in _SPLITS["all"]:
            path = root / f"{domain}_{part}.txt"
            wanted = part in parts
            if not path.is_file() and not wanted:
                continue
            for line, (file, label) in _read_list(path):
                names.setdefault(label, Path(file).parent.name)
                if wanted:
                    _check_file(root, file, path, line, present)
                    entries[domain].append((file, label))
        if not entries[domain]:
            raise ValueError(f"the lists of {domain} in {root} name no image for {'+'.join(parts)}")
    return Listing(_consecutive(names, root), entries)


def _read_list(path: Path) -> Iterator[tuple[int, ListedFile]]:
    """Line numbers, files and labels; blank lines are skipped."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; each domain needs a list for this split")
    try:
        text = path.read_text(encoding="utf-8-sig")  # with or without a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}); save it as such") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        file, _, label = line.strip().rpartition(" ")
        if not file or not (label.isascii() and label.isdigit()):
            raise ValueError(
                f"{path}, line {number}: expected `relative/path.jpg label`, found {line!r}"
            )
        yield number, (file.strip(), int(label))


def _check_file(
    root: Path, file: str, path: Path, line: int, present: dict[str, frozenset[str]]
) -> None:
    """See that a listed image exists; each folder is scanned once, into ``present``."""
    folder, _, name = file.rpartition("/")
    if folder not in present:
        place = root / folder
        names = (entry.name for entry in place.iterdir()) if place.is_dir() else ()
        present[folder] = frozenset(names)
    if name not in present[folder]:
        raise FileNotFoundError(
            f"{path}, line {line}: {root / file} does not exist; unpack the images of that "
            "domain, or correct the list"
        )


def _consecutive(names: dict[int, str], root: Path) -> tuple[str, ...]:
    """The class names by label, which must count 0, 1, 2, …"""
    for label in range(len(names)):
        if label not in names:
            raise ValueError(
                f"no list in {root} has an image of label {label}, though labels reach "
                f"{max(names)}; they must count from 0 without gaps"
            )
    return tuple(names[label] for label in range(len(names)))
