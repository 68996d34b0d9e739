"""CIFAR-10-C, CIFAR-100-C and digits-c: published where there, generated where not."""

from pathlib import Path

from rotta.corruptions import load_textures
from rotta.datasets.base import Dataset
from rotta.datasets.cifar import CIFARS, load_cifar
from rotta.datasets.corrupted_folder import DOMAIN_ORDER, CorruptedFolder, open_folder
from rotta.datasets.digits import load_digits
from rotta.datasets.download import Archive, Ask, fetch, find
from rotta.datasets.generated import CorruptionRecipe, generate
from rotta.progress import Progress

PUBLISHED = {
    "cifar10": Archive(
        title="CIFAR-10-C",
        url="https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
        md5="56bf5dcef84df0e2308c6dcbcbbd8499",
        size="2.9 GB",
        folder="CIFAR-10-C",
    ),
    "cifar100": Archive(
        title="CIFAR-100-C",
        url="https://zenodo.org/records/3555552/files/CIFAR-100-C.tar",
        md5="11f0ed0f1191edbf9fa23466ae6021d3",
        size="2.9 GB",
        folder="CIFAR-100-C",
    ),
}
"""The corrupted sets as published, by the name of their clean set."""

DIGIT_VIEWS = 4
"""How often digits-c shows each scan."""


def load_cifar_c(
    clean_name: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    frost: Path | None = None,
    device: str = "cpu",
    download: Ask | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """The corrupted test set of ``cifar10`` or ``cifar100``.

    The published images are used if their folder is in ``data/``. Otherwise they are made from
    the clean test set. If that is missing too, ``download`` is asked for the clean images and,
    that declined, for the published ones, which are seventeen times as large.

    Args:
        clean_name: ``"cifar10"`` or ``"cifar100"``.
        limit: Only the first so many images of each domain.
        seed: Of images that are made here; published ones are what they are.
        frost: A folder of frost pictures for images that are made here.
        device: Where to make them.
        download: Asked before anything is downloaded; ``None`` never downloads.
        progress: Called with what is done and what there is in all: bytes of a download, images
            of a domain.

    Raises:
        FileNotFoundError: Neither the published nor the clean images are there.
        ValueError: A file is damaged, or ``frost`` was given for published images.
    """
    archive, clean = PUBLISHED[clean_name], CIFARS[clean_name]
    folder = find(archive)
    if folder is None and find(clean.archive, clean.files["test"]) is None:
        made_here = fetch(clean.archive, download, progress=progress)
        folder = None if made_here else fetch(archive, download, progress=progress)
    if folder is not None:
        return _published(clean_name, folder, frost=frost, limit=limit)
    images = load_cifar(clean_name)
    recipe = CorruptionRecipe(seed, load_textures(frost), device)
    return generate(f"{clean_name}-c", images, recipe, limit=limit, progress=progress)


def load_digits_c(
    *,
    limit: int | None = None,
    seed: int = 0,
    frost: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Dataset:
    """The 897 test digits, each in four views, under the fifteen corruptions; no download.

    The views (:mod:`rotta.datasets.digit_views`) make the stream long enough for methods that
    learn: 3,588 images in each domain.

    Args:
        limit: Only the first so many images of each domain.
        seed: Of all that is random in the corruptions.
        frost: A folder of frost pictures, instead of those found by themselves.
        device: Where to make the images.
        progress: Called with the images made and the images in all, for each new domain.
    """
    recipe = CorruptionRecipe(seed, load_textures(frost), device)
    return generate(
        "digits-c", load_digits(views=DIGIT_VIEWS), recipe, limit=limit, progress=progress
    )


def _published(
    clean_name: str, folder: Path, *, frost: Path | None, limit: int | None
) -> CorruptedFolder:
    """The published images, which no frost pictures can change any more."""
    if frost is not None:
        raise ValueError(
            f"frost pictures change nothing here: {folder} holds the published images. Leave "
            "frost out, or move that folder away to have the images made"
        )
    classes = CIFARS[clean_name].classes
    name = f"{clean_name}-c"
    return open_folder(folder, name=name, classes=classes, domains=DOMAIN_ORDER, limit=limit)
