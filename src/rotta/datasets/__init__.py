"""Images to adapt to: one table of names, one function that loads them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rotta.datasets.base import Dataset, ImageSet, Indices, Labels
from rotta.datasets.cifar import load_cifar
from rotta.datasets.cifar_c import load_cifar_c, load_digits_c
from rotta.datasets.corrupted_folder import DOMAIN_ORDER, open_folder
from rotta.datasets.corrupted_writer import write_corrupted
from rotta.datasets.digits import load_digits
from rotta.datasets.domains import load_domains
from rotta.datasets.download import Ask
from rotta.datasets.named_domains import load_named_domains
from rotta.progress import Progress
from rotta.registry import lookup


@dataclass(frozen=True)
class _Request:
    """What :func:`load_dataset` was asked for."""

    path: Path
    split: str
    limit: int | None
    seed: int
    frost: Path | None
    image_size: int | None
    device: str
    download: Ask | None
    progress: Progress | None


@dataclass(frozen=True)
class Entry:
    """A dataset that can be asked for by name."""

    description: str
    build: Callable[[_Request], Dataset]
    splits: tuple[str, ...] = ("test",)
    takes_frost: bool = False
    takes_image_size: bool = False


def _cifar(name: str) -> Callable[[_Request], Dataset]:
    return lambda asked: load_cifar(
        name,
        split=asked.split,
        limit=asked.limit,
        download=asked.download,
        progress=asked.progress,
    )


def _cifar_c(clean_name: str) -> Callable[[_Request], Dataset]:
    return lambda asked: load_cifar_c(
        clean_name,
        limit=asked.limit,
        seed=asked.seed,
        frost=asked.frost,
        device=asked.device,
        download=asked.download,
        progress=asked.progress,
    )


def _digits_c(asked: _Request) -> Dataset:
    return load_digits_c(
        limit=asked.limit,
        seed=asked.seed,
        frost=asked.frost,
        device=asked.device,
        progress=asked.progress,
    )


def _domains(asked: _Request) -> Dataset:
    return load_domains(
        asked.path, split=asked.split, limit=asked.limit, image_size=asked.image_size
    )


def _named_domains(name: str) -> Callable[[_Request], Dataset]:
    return lambda asked: load_named_domains(
        name, split=asked.split, limit=asked.limit, image_size=asked.image_size
    )


DATASETS: dict[str, Entry] = {
    "digits": Entry(
        "handwritten digits that come with scikit-learn, 32×32: 900 train, 897 test",
        lambda asked: load_digits(split=asked.split, limit=asked.limit),
        splits=("train", "test"),
    ),
    "digits-c": Entry(
        "the digits' test images, 4 views of each, under 15 corruptions, made here",
        _digits_c,
        takes_frost=True,
    ),
    "cifar10": Entry("CIFAR-10: 10 classes, 32×32", _cifar("cifar10"), splits=("train", "test")),
    "cifar100": Entry(
        "CIFAR-100: 100 classes, 32×32", _cifar("cifar100"), splits=("train", "test")
    ),
    "cifar10-c": Entry(
        "CIFAR-10-C: 15 corruptions, as published or made from the clean test set",
        _cifar_c("cifar10"),
        takes_frost=True,
    ),
    "cifar100-c": Entry(
        "CIFAR-100-C: 15 corruptions, as published or made from the clean test set",
        _cifar_c("cifar100"),
        takes_frost=True,
    ),
    "pacs": Entry(
        "PACS: photos, paintings, cartoons and sketches of 7 classes",
        _named_domains("pacs"),
        splits=("train", "test", "all"),
        takes_image_size=True,
    ),
    "domainnet": Entry(
        "DomainNet, the cleaned version: 6 domains of 345 classes",
        _named_domains("domainnet"),
        splits=("train", "test", "all"),
        takes_image_size=True,
    ),
    "corrupted:PATH": Entry(
        "any folder in the layout of CIFAR-10-C, such as `rotta corrupt` writes",
        lambda asked: open_folder(asked.path, limit=asked.limit),
    ),
    "domains:PATH": Entry(
        "a folder of domains: <domain>/<class>/<image>, or with lists as DomainNet has them",
        _domains,
        splits=("train", "test", "all"),
        takes_image_size=True,
    ),
}
"""Every dataset by the name to ask for; ``PATH`` stands for a folder."""


def entry_of(name: str) -> tuple[Entry, Path]:
    """What a dataset's name stands for, and the folder that it names, if it does.

    Raises:
        ValueError: It stands for nothing.

    Example:
        >>> entry, folder = entry_of("domains:mine")
        >>> entry.takes_image_size, str(folder)
        (True, 'mine')
    """
    kind, colon, path = name.partition(":")
    if not colon and "/" in name:
        raise ValueError(f"{name!r} looks like a folder: write domains:{name} or corrupted:{name}")
    entry = lookup(DATASETS, f"{kind}:PATH" if colon else name, "dataset")
    if colon and not path:
        raise ValueError(f"{name!r} names no folder; write {kind}: and a path after it")
    return entry, Path(path).expanduser()


def load_dataset(
    name: str,
    *,
    split: str = "test",
    limit: int | None = None,
    seed: int = 0,
    frost: Path | None = None,
    image_size: int | None = None,
    device: str = "cpu",
    download: Ask | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Load a dataset by name.

    Args:
        name: A key of :data:`DATASETS`, with a folder in place of ``PATH``.
        split: ``"train"`` or ``"test"``, or ``"all"`` of sets of image files. Corrupted sets are
            test sets.
        limit: Only the first so many images of each domain.
        seed: Of corruptions made here; nothing else is random.
        frost: A folder of frost pictures for corruptions made here, instead of those found.
        image_size: The side to which image files are brought: those of ``pacs``, ``domainnet``
            and ``domains:PATH``.
        device: Where corruptions are computed; images always arrive on the CPU.
        download: Shown a question before anything is downloaded, such as "download CIFAR-10
            (170 MB) from … to …?"; true allows it. ``None`` never downloads.
        progress: Called with what is done and what there is in all: bytes of a download, images
            of a domain being made.

    Raises:
        ValueError: The name or split is unknown, an option means nothing to this dataset, or a
            file is damaged.
        FileNotFoundError: Files are missing; the message says which and where to get them.

    Example:
        >>> digits = load_dataset("digits", limit=4)
        >>> digits.domains, digits.domain("clean").labels.tolist()
        (('clean',), [1, 5, 6, 7])
    """
    entry, folder = entry_of(name)
    if split not in entry.splits:
        allowed = " or ".join(repr(known) for known in entry.splits)
        raise ValueError(f"{name} has no split {split!r}; choose {allowed}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    if frost is not None and not entry.takes_frost:
        raise ValueError(f"frost pictures mean nothing to {name}; leave them out")
    if image_size is not None and not entry.takes_image_size:
        raise ValueError(f"{name} has images of one size; leave image_size out")
    return entry.build(
        _Request(folder, split, limit, seed, frost, image_size, device, download, progress)
    )


__all__ = [
    "DATASETS",
    "DOMAIN_ORDER",
    "Ask",
    "Dataset",
    "Entry",
    "ImageSet",
    "Indices",
    "Labels",
    "Progress",
    "entry_of",
    "load_dataset",
    "write_corrupted",
]
