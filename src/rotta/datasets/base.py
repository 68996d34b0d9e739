"""What every dataset is: named domains, each a fixed list of 8-bit images with labels."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Labels = NDArray[np.int64]
Indices = NDArray[np.int64]


class ImageSet(Protocol):
    """The images of one domain in a fixed order; they are read when asked for."""

    labels: Labels
    """One class index per image, shape (N,)."""

    def images(self, indices: Indices) -> Tensor:
        """The images at ``indices``, (B,), as uint8 RGB on the CPU, (B, 3, H, W)."""
        ...


class Dataset(Protocol):
    """Domains that share their classes: one for a clean set, 15 for a corrupted one."""

    name: str
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    """In the order in which a stream visits them unless it is told otherwise."""
    mirrored: bool
    """Whether a mirrored image keeps its label: true for objects, false for digits."""
    provenance: Mapping[str, str]
    """Where the images came from: files with checksums, seed, frost textures."""

    def domain(self, name: str, severity: int = 5) -> ImageSet:
        """One domain's images. ``severity`` matters to corrupted sets only."""
        ...
