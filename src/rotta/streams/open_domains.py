"""The domains of a dataset that a stream has reached so far."""

from threading import Lock

import numpy as np
import torch
from torch import Tensor

from rotta.corruptions import SEVERITIES
from rotta.datasets.base import Dataset, ImageSet, Labels
from rotta.streams.plan import Stay


class OpenDomains:
    """Domains that are opened when first asked for, and stay open.

    Args:
        dataset: Where they are.
        names: In the order in which a stream counts them.
    """

    def __init__(self, dataset: Dataset, names: tuple[str, ...]) -> None:
        self._dataset = dataset
        self._names = names
        self._open: dict[tuple[int, int], ImageSet] = {}
        self._opening = Lock()

    def labels(self, domain: int, severity: int) -> Labels:
        """Classes of all samples of a domain, (N,)."""
        return self._image_set(domain, severity).labels

    def images(self, samples: Stay) -> Tensor:
        """Of samples from any domains and severities, uint8, (B, 3, H, W); at least one."""
        source = samples.domains * (max(SEVERITIES) + 1) + samples.severities
        parts = []
        for places in (np.flatnonzero(source == one) for one in np.unique(source)):
            first = places[0]
            image_set = self._image_set(int(samples.domains[first]), int(samples.severities[first]))
            parts.append((places, image_set.images(samples.indices[places]).numpy()))
        # not torch.cat: the reading thread would get OpenMP threads of its own, which spin and
        # take a fifth of two cores from the method
        pixels = np.empty((len(samples), *parts[0][1].shape[1:]), np.uint8)
        for places, part in parts:
            pixels[places] = part
        return torch.from_numpy(pixels)

    def _image_set(self, domain: int, severity: int) -> ImageSet:
        with self._opening:  # iterations read in threads of their own
            if (domain, severity) not in self._open:
                opened = self._dataset.domain(self._names[domain], severity=severity)
                self._open[domain, severity] = opened
            return self._open[domain, severity]
