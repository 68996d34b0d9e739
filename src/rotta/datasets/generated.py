"""Corrupted images made from a clean test set, kept so that they are made once."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rotta import folders
from rotta.atomic import replacing
from rotta.corruptions import Textures, check_severity, corrupt
from rotta.datasets.arrays import ArrayImages, CleanDataset, Pixels
from rotta.datasets.base import ImageSet, Indices, Labels
from rotta.datasets.corrupted_folder import DOMAIN_ORDER
from rotta.progress import Progress
from rotta.registry import lookup

GENERATION = "v1"
"""Names the cache folder; raise it whenever a corruption's pixels change."""

_IMAGES_AT_ONCE = 500


@dataclass(frozen=True)
class CorruptionRecipe:
    """All that decides the corrupted pixels besides the clean ones, and where to compute them."""

    seed: int
    textures: Textures
    device: str = "cpu"

    @property
    def frost(self) -> str:
        """Which pictures of frost these are, for the record."""
        return f"{self.textures.origin}, md5 {self.textures.md5}"


def corrupted_pieces(
    images: ImageSet, count: int, corruption: str, severity: int, recipe: CorruptionRecipe
) -> Iterator[tuple[slice, Pixels]]:
    """Corrupt the first ``count`` images, a piece at a time.

    An image's result depends on its position, not on the piece it comes in.

    Yields:
        The positions, and their corrupted images, uint8 (B, H, W, 3).
    """
    for start in range(0, count, _IMAGES_AT_ONCE):
        piece = slice(start, min(start + _IMAGES_AT_ONCE, count))
        positions = np.arange(piece.start, piece.stop, dtype=np.int64)
        index = torch.from_numpy(positions).to(recipe.device)
        clean = images.images(positions).to(recipe.device).float() / 255
        dirty = corrupt(
            clean, corruption, severity, seed=recipe.seed, index=index, textures=recipe.textures
        )
        levels = (dirty * 255).round().to(torch.uint8)
        yield piece, levels.permute(0, 2, 3, 1).cpu().numpy()


class GeneratedImages:
    """One corruption at one severity: its labels at once, its images made when first read."""

    def __init__(self, labels: Labels, make: Callable[[], Pixels]) -> None:
        self.labels = labels
        self._make = make
        self._lock = Lock()  # two iterations of a stream read in threads of their own

    @property
    def pixels(self) -> Pixels:
        """All images, (N, H, W, 3); this is what makes them."""
        with self._lock:
            return self._made

    def images(self, indices: Indices) -> Tensor:
        """The images at ``indices``, (B,), as uint8 RGB on the CPU, (B, 3, H, W)."""
        return ArrayImages(self.pixels, self.labels).images(indices)

    @cached_property
    def _made(self) -> Pixels:
        return self._make()


@dataclass
class GeneratedDataset:
    """The fifteen corruptions of a clean dataset, each made when its first image is read.

    A whole domain is written to ``folder`` and mapped from there ever after. Under a ``limit``
    only the images asked for are made, and stay in memory, unless the whole domain is on disk
    already.
    """

    name: str
    clean: CleanDataset
    """The whole test set: positions in it are part of what decides the pixels."""
    recipe: CorruptionRecipe
    folder: Path
    limit: int | None = None
    progress: Progress | None = None
    domains: tuple[str, ...] = DOMAIN_ORDER
    _in_memory: dict[tuple[str, int], Pixels] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.classes = self.clean.classes
        self.mirrored = self.clean.mirrored
        self.provenance: Mapping[str, str] = {
            **self.clean.provenance,
            "corruptions": f"generated, {GENERATION}",
            "seed": str(self.recipe.seed),
            "frost": self.recipe.frost,
        }

    def domain(self, name: str, severity: int = 5) -> GeneratedImages:
        """The images of one corruption at one severity.

        Raises:
            ValueError: There is no such corruption or severity.
        """
        lookup(dict.fromkeys(self.domains), name, f"domain of {self.name}")
        check_severity(severity)
        labels = self.clean.clean.labels[: self.limit]
        return GeneratedImages(labels, partial(self._pixels, name, severity))

    def _pixels(self, corruption: str, severity: int) -> Pixels:
        path = self.folder / f"{corruption}-{severity}.npy"
        whole = self.clean.clean.pixels.shape
        stored = _map_if_sound(path, whole)
        if stored is not None:
            return stored[: self.limit]
        key = corruption, severity
        if key in self._in_memory:
            return self._in_memory[key]
        if self.limit is None or self.limit >= whole[0]:
            try:
                return self._store(path, corruption, severity)
            except OSError as error:  # a full or read-only disk is no reason to stop
                warnings.warn(f"{path} cannot be kept ({error}); made in memory", stacklevel=2)
        made = np.empty((self.limit or whole[0], *whole[1:]), np.uint8)
        self._make(made, corruption, severity)
        self._in_memory[key] = made
        return made

    def _store(self, path: Path, corruption: str, severity: int) -> Pixels:
        shape = self.clean.clean.pixels.shape
        with replacing(path) as temporary:
            made = new_stack(temporary, shape)
            self._make(made, corruption, severity)
            made.flush()
        stored = _map_if_sound(path, shape)
        assert stored is not None, path
        return stored

    def _make(self, made: Pixels, corruption: str, severity: int) -> None:
        images, count = self.clean.clean, len(made)
        for piece, pixels in corrupted_pieces(images, count, corruption, severity, self.recipe):
            made[piece] = pixels
            if self.progress:
                self.progress(piece.stop, count)


def generate(
    name: str,
    clean: CleanDataset,
    recipe: CorruptionRecipe,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> GeneratedDataset:
    """The corrupted version of ``clean``, cached under ``$ROTTA_CACHE/generated``.

    Args:
        name: What to call it, also in the cache.
        clean: A whole clean test set.
        recipe: Seed, frost textures and device.
        limit: Only the first so many images of each domain.
        progress: Called with the images corrupted and the images in all, for each domain that
            has to be made.
    """
    frost = f"{recipe.textures.origin}-{recipe.textures.md5[:8]}"
    key = f"{name}-seed{recipe.seed}-{frost}-{GENERATION}"
    folder = folders.cache() / "generated" / key
    return GeneratedDataset(name, clean, recipe, folder, limit, progress)


def new_stack(path: Path, shape: tuple[int, ...]) -> "np.memmap[Any, np.dtype[np.uint8]]":
    """A new ``.npy`` file of 8-bit images, mapped for writing, with its space reserved.

    A full disk is an ``OSError`` here; found out while writing to the map, it would kill the
    process.
    """
    stack: np.memmap[Any, np.dtype[np.uint8]] = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=shape
    )
    with path.open("rb+") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return stack


def _map_if_sound(path: Path, shape: tuple[int, ...]) -> Pixels | None:
    """The cached images, or ``None`` if they are not there or not what they should be."""
    try:
        stored: Pixels = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    return stored if stored.dtype == np.uint8 and stored.shape == shape else None
