"""Sets of image files from several domains: DomainNet with its lists, PACS as plain folders."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rotta.datasets.base import Indices, Labels
from rotta.datasets.listing import Listing, first_image, list_domains
from rotta.registry import lookup

LARGEST_NATIVE_SIDE = 224
"""Square images up to this side are taken as they are; others become this large by default."""

_RESIZE_BEFORE_CROP = 256 / 224


@dataclass
class ImageFiles:
    """An :class:`~rotta.datasets.base.ImageSet` of files, decoded when asked for."""

    root: Path
    files: tuple[str, ...]
    labels: Labels
    side: int

    def images(self, indices: Indices) -> Tensor:
        """The images at ``indices``, (B,), as uint8 RGB on the CPU, (B, 3, side, side).

        Raises:
            ValueError: A file is not a readable image; the message names it.
        """
        paths = [self.root / self.files[i] for i in indices.tolist()]
        if not paths:
            return torch.empty((0, 3, self.side, self.side), dtype=torch.uint8)
        # Pillow decodes and resizes without the interpreter's lock, so threads do help
        with ThreadPoolExecutor() as pool:
            pixels = np.stack(list(pool.map(self._decode, paths)))
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        return np.asarray(fit(_read(path), self.side))


@dataclass
class DomainFolder:
    """A dataset of image files; its domains are in alphabetical order."""

    name: str
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    provenance: Mapping[str, str]
    sets: Mapping[str, ImageFiles]
    mirrored: bool = True

    def domain(self, name: str, severity: int = 5) -> ImageFiles:  # noqa: ARG002 (part of the protocol)
        """The images of one domain; ``severity`` means nothing here."""
        return lookup(self.sets, name, f"domain of {self.name}")


def load_domains(
    root: Path, *, split: str = "test", limit: int | None = None, image_size: int | None = None
) -> DomainFolder:
    """Open a folder of domains; images are read later, when they are asked for.

    Two layouts are understood. With lists ``<domain>_train.txt`` and ``<domain>_test.txt`` (as
    DomainNet has them; lines ``relative/path.jpg label``) the lists decide everything. Without
    lists, ``<domain>/<class>/<image>`` (as PACS has it) is split here: an image is a test image
    if a hash of its relative name falls in the lowest fifth, so that about 20 % are, whatever
    else lies in the folder.

    Args:
        root: The folder.
        split: ``"train"``, ``"test"`` or ``"all"``.
        limit: Only the first so many images of each domain. The order is that of a hash of
            their names, which mixes the classes, so that a few images are a fair sample.
        image_size: The side of the square images. An image of exactly that size is taken as it
            is; of any other, the shorter side is made 256/224 times as long and the centre is
            cut out. By default the size of the first image of all, in whichever split, if it is
            square and at most 224, else 224.

    Raises:
        FileNotFoundError: The folder, a list or a listed image is missing.
        ValueError: A list's line is malformed, a domain is empty or lacks a class, or the first
            image is unreadable. The message names the file and, in a list, the line.
    """
    if image_size is not None and image_size < 1:
        raise ValueError(f"image_size must be at least 1, not {image_size}")
    listing = list_domains(root, split)
    side = image_size or _native_side(root / first_image(root))
    sets = {
        domain: ImageFiles(
            root,
            tuple(file for file, _ in entries[:limit]),
            np.array([label for _, label in entries[:limit]], np.int64),
            side,
        )
        for domain, entries in listing.entries.items()
    }
    return DomainFolder(
        name=f"domains:{root}",
        classes=listing.classes,
        domains=tuple(sets),
        provenance={
            "folder": str(root),
            "split": split,
            "image size": str(side),
            "md5 of names and labels": _checksum(listing),
        },
        sets=sets,
    )


def fit(image: Image.Image, side: int) -> Image.Image:
    """Make an image ``side`` × ``side``: itself, or resized and its centre cut out.

    Example:
        >>> fit(Image.new("RGB", (640, 480)), 224).size
        (224, 224)
    """
    if image.size == (side, side):
        return image
    scale = round(side * _RESIZE_BEFORE_CROP) / min(image.size)
    # rounding must not leave an axis shorter than the crop
    width, height = (max(side, round(length * scale)) for length in image.size)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side))


def _native_side(path: Path) -> int:
    """The side of images used as they are, judged by the first."""
    width, height = _read(path).size
    return width if width == height <= LARGEST_NATIVE_SIDE else LARGEST_NATIVE_SIDE


def _read(path: Path) -> Image.Image:
    """Decode a whole image, so that a truncated file is found out too."""
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # Pillow's decoders raise all of these
        raise ValueError(
            f"{path} is not a readable image ({error}); replace or remove it"
        ) from error


def _checksum(listing: Listing) -> str:
    """Of which files there are and what they show; a renamed or relabelled one changes it."""
    lines = [f"{file} {label}\n" for entries in listing.entries.values() for file, label in entries]
    return md5("".join(lines).encode()).hexdigest()
