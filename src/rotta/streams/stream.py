"""A seeded, re-iterable stream of batches that drifts through the domains of a dataset."""

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from rotta.corruptions import check_severity
from rotta.datasets.base import Dataset, ImageSet, Indices, Labels
from rotta.registry import lookup
from rotta.streams.cutting import Piece, cut, locate, num_batches
from rotta.streams.domains import SETTINGS, resolve_order
from rotta.streams.labels import check_delta, dirichlet
from rotta.streams.plan import Stay, Timeline, generator
from rotta.streams.prefetch import prefetched


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive samples of a stream. All tensors are on the stream's device.

    Attributes:
        x: Images, float32 in [0, 1], (B, 3, H, W).
        y: Labels, int64, (B,). For the metrics; adapters never see them.
        domain: Index of each sample's domain in ``stream.domains``, int64, (B,).
        visit: How often the order of domains was gone through before, int64, (B,).
        index: Position of each sample in its domain, int64, (B,).
        restart: Whether an episode begins here and the model must be reset first. Always false
            in changing settings.
        number: Position of the batch in the stream, from 0.
    """

    x: Tensor
    y: Tensor
    domain: Tensor
    visit: Tensor
    index: Tensor
    restart: bool
    number: int


class Stream:
    """The test stream of one setting over one dataset; every iteration yields the same batches.

    The order of the samples in a domain is drawn from (seed, visit, name of the domain), so it
    depends neither on the other domains nor on the batch size, and is the same at every
    severity. In changing settings batches run across the borders of domains; in stationary ones
    each domain is an episode, whose last batch may be short. Domains are opened when first
    reached and stay open; ``len`` and ``num_samples`` have to open all of them.

    Args:
        dataset: Where the images come from.
        setting: A name of :data:`SETTINGS`.
        delta: Dirichlet concentration of the label order; ``math.inf`` for independent samples.
            Independent settings are independent whatever its value.
        order: ``None`` for the dataset's domains in their order, 0 … 9 for a row of
            :data:`ORDERS`, or names of domains, which may be a part of them.
        severity: Of the corruption, 1 … 5, for the whole stream.
        visits: How often the order is gone through; the label order is drawn anew each time.
        batch_size: Samples per batch.
        seed: 0 or more.
        device: Where the batches go.
        prefetch: How many batches a background thread reads ahead; 0 for no thread.

    Attributes:
        setting: The row of :data:`SETTINGS`.
        delta: The concentration in force: ``math.inf`` in independent settings.
        domains: Names in the order of the visits.

    Raises:
        ValueError: An argument is unknown or out of range.

    Example:
        >>> from types import SimpleNamespace
        >>> photos = SimpleNamespace(
        ...     labels=np.arange(6) % 3,
        ...     images=lambda indices: torch.zeros(len(indices), 3, 8, 8, dtype=torch.uint8),
        ... )
        >>> dataset = SimpleNamespace(
        ...     classes=("cat", "dog", "ship"),
        ...     domains=("fog", "snow"),
        ...     domain=lambda name, severity: photos,
        ... )
        >>> stream = Stream(dataset, setting="ptta", batch_size=4)
        >>> len(stream), stream.num_samples
        (3, 12)
        >>> [batch.domain.tolist() for batch in stream]
        [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        setting: str = "ptta",
        delta: float = 0.1,
        order: int | Sequence[str] | None = None,
        severity: int = 5,
        visits: int = 1,
        batch_size: int = 64,
        seed: int = 0,
        device: str | torch.device = "cpu",
        prefetch: int = 2,
    ) -> None:
        self.setting = lookup(SETTINGS, setting, "setting")
        self.domains = resolve_order(order, dataset.domains)
        check_delta(delta)
        _check_at_least(1, visits=visits, batch_size=batch_size)
        _check_at_least(0, seed=seed, prefetch=prefetch)
        check_severity(severity)
        self.dataset = dataset
        self.delta = delta if self.setting.correlated else math.inf
        self.severity = int(severity)
        self.visits = visits
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.prefetch = prefetch
        self._open: dict[str, ImageSet] = {}
        self._opening = Lock()

    def __len__(self) -> int:
        """Number of batches."""
        if self.setting.changing:
            return num_batches(self.num_samples, self.batch_size)
        return self.visits * sum(num_batches(size, self.batch_size) for size in self._sizes())

    def __iter__(self) -> Iterator[Batch]:
        return self.starting_at(0)

    @property
    def num_samples(self) -> int:
        """Number of samples over all domains and visits."""
        return self.visits * sum(self._sizes())

    def starting_at(self, batch_number: int) -> Iterator[Batch]:
        """Iterate from the given batch on, as if the batches before had been read.

        Args:
            batch_number: 0 for the whole stream; ``len(stream)`` for nothing.

        Raises:
            ValueError: The stream has no such place.
        """
        across = self.setting.changing
        sizes = (size for _ in range(self.visits) for size in self._sizes())
        first, offset = locate(batch_number, sizes, self.batch_size, across=across)
        cuts = cut(self.plan(first), offset, self.batch_size, across=across)
        return self._deliver(cuts, batch_number)

    def plan(self, first: int = 0) -> Iterator[Stay]:
        """The stays one after the other, drawn when reached; no image is read.

        Args:
            first: How many stays to pass over.
        """
        for number in range(first, self.visits * len(self.domains)):
            visit, domain = divmod(number, len(self.domains))
            name = self.domains[domain]
            labels = self._image_set(name).labels
            rng = generator(self.seed, visit, name)
            indices = dirichlet(labels, len(self.dataset.classes), self.delta, rng)
            yield Stay(visit, domain, indices, labels[indices])

    def timeline(self) -> Timeline:
        """Label and domain of every sample in the order of arrival; no image is read."""
        stays = list(self.plan())
        return Timeline(
            labels=np.concatenate([stay.labels for stay in stays]),
            domains=np.repeat([stay.domain for stay in stays], [len(s.labels) for s in stays]),
            domain_names=self.domains,
            class_names=tuple(self.dataset.classes),
            delta=self.delta,
        )

    def labels(self) -> Labels:
        """Label of every sample in the order of arrival, int64, (num_samples,)."""
        return self.timeline().labels

    def domain_sizes(self) -> list[int]:
        """Number of samples of each domain in one visit, in the order of the visits."""
        return list(self._sizes())

    def _sizes(self) -> Iterator[int]:
        """Samples in each domain, which is opened when its turn comes."""
        return (len(self._image_set(name).labels) for name in self.domains)

    def _image_set(self, name: str) -> ImageSet:
        with self._opening:  # iterations read in threads of their own
            if name not in self._open:
                self._open[name] = self.dataset.domain(name, severity=self.severity)
            return self._open[name]

    def _deliver(self, cuts: Iterator[list[Piece]], number: int) -> Iterator[Batch]:
        # Only reading happens in the thread. The device is left to the caller's thread, with
        # its current CUDA stream; another thread would break the capture of a CUDA graph.
        loaded = ((pieces, self._read(pieces)) for pieces in cuts)
        # Divided by a tensor, since CUDA multiplies by the reciprocal of a number: this way a
        # stream has the same bytes on every device.
        white = torch.tensor(255.0, dtype=torch.float32, device=self.device)
        with closing(prefetched(loaded, self.prefetch)) as ready:
            for pieces, pixels in ready:
                yield self._batch(pixels.to(self.device) / white, pieces, number)
                number += 1

    def _read(self, pieces: list[Piece]) -> Tensor:
        """The images of one batch, uint8, (B, 3, H, W)."""
        images = [
            self._image_set(self.domains[piece.stay.domain]).images(piece.indices)
            for piece in pieces
        ]
        # not torch.cat: the reading thread would get OpenMP threads of its own, which spin and
        # take a fifth of two cores from the method
        return torch.from_numpy(np.concatenate([image.numpy() for image in images]))

    def _batch(self, x: Tensor, pieces: list[Piece], number: int) -> Batch:
        lengths = [len(piece) for piece in pieces]

        def column(parts: Sequence[Indices]) -> Tensor:
            return torch.from_numpy(np.concatenate(parts)).to(self.device)

        def per_piece(values: list[int]) -> Tensor:
            return column([np.repeat(np.array(values, dtype=np.int64), lengths)])

        return Batch(
            x=x,
            y=column([piece.labels for piece in pieces]),
            domain=per_piece([piece.stay.domain for piece in pieces]),
            visit=per_piece([piece.stay.visit for piece in pieces]),
            index=column([piece.indices for piece in pieces]),
            restart=not self.setting.changing and pieces[0].start == 0,
            number=number,
        )


def _check_at_least(least: int, **arguments: int) -> None:
    for name, value in arguments.items():
        if value < least:
            raise ValueError(f"{name} must be {least} or more, got {value}")
