"""A small tree of images in the layout of DomainNet: six domains, 345 classes, the list files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DOMAINS = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
CLASSES = 345

_BLOCKS = 4  # per side of the coarse pattern that a class has
_NOISE = 12.0

Picture = NDArray[np.float64]  # (side, side, 3), 0 to 255
Style = Callable[[Picture], Picture]


def write_domain_tree(
    root: Path,
    *,
    domains: Sequence[str] = DOMAINS,
    classes: int = CLASSES,
    train: int = 1,
    test: int = 1,
    side: int = 32,
) -> Path:
    """Write the images and the lists; the same arguments give the same files.

    A class is a pattern of coloured blocks, a domain a way to draw it, an image one of many
    noisy copies: a network can learn a domain, and errs on the others.

    Args:
        root: The folder; ``$ROTTA_HOME/data/domainnet`` to be found by name.
        domains: Some of `DOMAINS`.
        classes: Labels 0, 1, …, in every domain.
        train: Images per domain and class in ``<domain>_train.txt``.
        test: As many in ``<domain>_test.txt``.
        side: Of the images, a multiple of 4.

    Returns:
        ``root``.
    """
    rng = np.random.default_rng(0)
    patterns = _enlarged(rng.uniform(0, 255, (classes, _BLOCKS, _BLOCKS, 3)), side)
    noises = rng.normal(0, _NOISE, (train + test, side, side, 3))
    for domain in domains:
        drawn = np.stack([_STYLES[domain](pattern) for pattern in patterns])
        pixels = np.clip(drawn[:, None] + noises, 0, 255).astype(np.uint8)
        files = [_write_class(root, domain, label, copies) for label, copies in enumerate(pixels)]
        for split, which in (("train", slice(None, train)), ("test", slice(train, None))):
            lines = [f"{file} {label}\n" for label, own in enumerate(files) for file in own[which]]
            (root / f"{domain}_{split}.txt").write_text("".join(lines))
    return root


def _write_class(root: Path, domain: str, label: int, copies: NDArray[np.uint8]) -> list[str]:
    """Write images, (N, side, side, 3); their names are relative to ``root``."""
    folder = f"{domain}/class_{label:03d}"
    (root / folder).mkdir(parents=True, exist_ok=True)
    files = []
    for number, copy in enumerate(copies, start=1):
        files.append(f"{folder}/{domain}_{label + 1:03d}_{number:06d}.jpg")
        Image.fromarray(copy).save(root / files[-1], quality=90)
    return files


def _enlarged(blocks: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """(N, 4, 4, 3) to (N, side, side, 3), every block a square of one colour."""
    return blocks.repeat(side // _BLOCKS, axis=1).repeat(side // _BLOCKS, axis=2)


def _grey(picture: Picture) -> Picture:
    return np.broadcast_to(picture.mean(axis=2, keepdims=True), picture.shape)


def _flat(picture: Picture) -> Picture:
    return np.where(picture > 127, 230.0, 40.0)


def _framed(picture: Picture) -> Picture:
    framed = np.full_like(picture, 255.0)
    edge = len(picture) // 8
    framed[edge:-edge, edge:-edge] = picture[edge:-edge, edge:-edge]
    return framed


def _striped(picture: Picture) -> Picture:
    """As if painted with a coarse brush."""
    return picture * 0.7 + 70 * (np.arange(len(picture)) // 2 % 2)[:, None, None]


def _black_on_white(picture: Picture) -> Picture:
    return np.where(_grey(picture) > 127, 255.0, 0.0)


def _unchanged(picture: Picture) -> Picture:
    return picture


def _negative(picture: Picture) -> Picture:
    return 255 - _grey(picture)


_STYLES: dict[str, Style] = {
    "clipart": _flat,
    "infograph": _framed,
    "painting": _striped,
    "quickdraw": _black_on_white,
    "real": _unchanged,
    "sketch": _negative,
}
