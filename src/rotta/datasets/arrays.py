"""Images that lie in one array, in memory or mapped from a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rotta.datasets.base import Indices, Labels
from rotta.registry import lookup

Pixels = NDArray[np.uint8]
"""RGB images with the channels last, (N, H, W, 3), as the published corrupted sets store them."""


@dataclass
class ArrayImages:
    """An :class:`~rotta.datasets.base.ImageSet` over an array, which may be a memory map.

    Example:
        >>> pixels = np.zeros((2, 4, 4, 3), np.uint8)
        >>> pixels[1, :, :, 0] = 255
        >>> red = ArrayImages(pixels, np.array([0, 1])).images(np.array([1]))
        >>> red.shape, red[0, :, 0, 0].tolist()
        (torch.Size([1, 3, 4, 4]), [255, 0, 0])
    """

    pixels: Pixels = field(repr=False)
    labels: Labels = field(repr=False)

    def images(self, indices: Indices) -> Tensor:
        """The images at ``indices``, (B,), as uint8 RGB on the CPU, (B, 3, H, W)."""
        chosen = np.asarray(self.pixels[indices])
        return torch.from_numpy(np.ascontiguousarray(chosen.transpose(0, 3, 1, 2)))

    def first(self, limit: int | None) -> "ArrayImages":
        """The first ``limit`` images, or all of them; nothing is copied."""
        return ArrayImages(self.pixels[:limit], self.labels[:limit])


@dataclass
class CleanDataset:
    """A dataset with the one domain ``clean``.

    Example:
        >>> images = ArrayImages(np.zeros((2, 4, 4, 3), np.uint8), np.array([0, 1]))
        >>> cats = CleanDataset("cats", ("cat", "dog"), images, mirrored=True)
        >>> len(cats.domain("clean").labels)
        2
    """

    name: str
    classes: tuple[str, ...]
    clean: ArrayImages
    mirrored: bool
    provenance: Mapping[str, str] = field(default_factory=dict)
    domains: tuple[str, ...] = ("clean",)

    def domain(self, name: str, severity: int = 5) -> ArrayImages:  # noqa: ARG002 (part of the protocol)
        """The images; ``name`` must be ``clean``, and ``severity`` means nothing here."""
        return lookup({"clean": self.clean}, name, f"domain of {self.name}")
