"""CIFAR-10 and CIFAR-100 as their authors publish them for Python."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rotta.datasets.arrays import ArrayImages, CleanDataset, Pixels
from rotta.datasets.base import Labels
from rotta.datasets.download import Archive, Ask, fetch, find, missing
from rotta.datasets.unpickle import unpickle
from rotta.progress import Progress

_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
    mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy
    porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper
    snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television
    tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""


@dataclass(frozen=True)
class Cifar:
    """One of the two sets: where its files are and how they name things."""

    archive: Archive
    files: Mapping[str, Mapping[str, str]]
    """The published md5 of each file, by split."""
    label_key: str
    classes: tuple[str, ...]


CIFARS = {
    "cifar10": Cifar(
        archive=Archive(
            title="CIFAR-10",
            url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            md5="c58f30108f718f92721af3b95e74349a",
            size="170 MB",
            folder="cifar-10-batches-py",
        ),
        files={
            "train": {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            },
            "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
        },
        label_key="labels",
        classes=tuple(_CIFAR10_CLASSES.split()),
    ),
    "cifar100": Cifar(
        archive=Archive(
            title="CIFAR-100",
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            md5="eb9058c3a382ffc7106e4002c42a8d85",
            size="169 MB",
            folder="cifar-100-python",
        ),
        files={
            "train": {"train": "16019d7e3df5f24257cddd939b257f8d"},
            "test": {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        },
        label_key="fine_labels",
        classes=tuple(_CIFAR100_CLASSES.split()),
    ),
}


def load_cifar(
    name: str,
    *,
    split: str = "test",
    limit: int | None = None,
    download: Ask | None = None,
    progress: Progress | None = None,
) -> CleanDataset:
    """CIFAR-10 or CIFAR-100 from ``data/`` of ``$ROTTA_HOME`` or ``$ROTTA_CACHE``.

    Only the files of the split are needed. Each must have its published md5, and is read by an
    unpickler that runs no code.

    Args:
        name: ``"cifar10"`` or ``"cifar100"``.
        split: ``"train"``, 50,000 images, or ``"test"``, 10,000.
        limit: Only the first so many images.
        download: Asked before the set is downloaded; ``None`` never downloads.
        progress: Called with the bytes downloaded and the bytes in all.

    Raises:
        FileNotFoundError: The files are not there; the message says where to put which.
        ValueError: A file is damaged.
    """
    cifar = CIFARS[name]
    files = cifar.files[split]
    folder = find(cifar.archive, files) or fetch(cifar.archive, download, progress=progress)
    if folder is None:
        raise missing(cifar.archive, files)
    parts = [_read(folder / file, md5, cifar) for file, md5 in files.items()]
    images = ArrayImages(
        np.concatenate([pixels for pixels, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
    )
    return CleanDataset(
        name=name,
        classes=cifar.classes,
        clean=images.first(limit),
        mirrored=True,
        provenance={file: f"md5 {md5}" for file, md5 in files.items()},
    )


def _read(path: Path, md5: str, cifar: Cifar) -> tuple[Pixels, Labels]:
    """One file's images, (N, 32, 32, 3), and labels, after its md5 proved right."""
    content = path.read_bytes()
    found = hashlib.md5(content).hexdigest()
    if found != md5:
        raise ValueError(
            f"{path} is damaged: its md5 is {found} instead of {md5}. Delete it and download "
            f"{cifar.archive.url} again"
        )
    table = unpickle(content, name=path.name)
    planes = np.asarray(table["data"], np.uint8).reshape(-1, 3, 32, 32)
    return planes.transpose(0, 2, 3, 1), np.asarray(table[cifar.label_key], np.int64)
