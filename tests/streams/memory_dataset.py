"""A small dataset in memory, whose images tell which sample they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rotta.datasets.base import Indices, Labels


@dataclass
class MemoryImages:
    """Images of 2×2 pixels; the first two bytes count the sample, the last is the domain.

    Green tells the severity.
    """

    labels: Labels
    tag: int
    severity: int = 5
    reads: int = 0

    def images(self, indices: Indices) -> Tensor:
        self.reads += 1
        pixels = np.zeros((len(indices), 3, 2, 2), dtype=np.uint8)
        pixels[:, 0, 0, 0] = indices % 256
        pixels[:, 0, 0, 1] = indices // 256
        pixels[:, 1] = self.severity
        pixels[:, 2, 1, 1] = self.tag
        return torch.from_numpy(pixels)


@dataclass
class MemoryDataset:
    """As many samples per domain as ``sizes`` says; labels are drawn once, per domain."""

    sizes: Mapping[str, int]
    num_classes: int = 5
    name: str = "memory"
    mirrored: bool = True
    provenance: Mapping[str, str] = field(default_factory=dict)
    opened: list[tuple[str, int]] = field(default_factory=list)

    classes: tuple[str, ...] = field(init=False)
    domains: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.classes = tuple(f"class {index}" for index in range(self.num_classes))
        self.domains = tuple(self.sizes)

    def domain(self, name: str, severity: int = 5) -> MemoryImages:
        self.opened.append((name, severity))
        tag = self.domains.index(name)
        return MemoryImages(self.labels_of(name), tag, severity)

    def labels_of(self, name: str) -> Labels:
        """The same at every severity."""
        rng = np.random.default_rng(self.domains.index(name))
        return rng.integers(0, self.num_classes, self.sizes[name])
