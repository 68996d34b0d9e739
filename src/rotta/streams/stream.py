"""A seeded, re-iterable stream of batches that drifts through the domains of a dataset."""

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor

from rotta.corruptions import CORRUPTIONS, check_severity
from rotta.datasets.base import Dataset, Indices, Labels
from rotta.registry import lookup
from rotta.streams.arrivals import ARRIVALS, Arrival, Terms, check_taken, mixed
from rotta.streams.cutting import Piece, cut, locate, num_batches
from rotta.streams.domains import SETTINGS, Setting, resolve_order
from rotta.streams.labels import check_delta, dirichlet
from rotta.streams.open_domains import OpenDomains
from rotta.streams.plan import Stay, Timeline, generator, whole_domain
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
        severity: Of the corruption, 1 … 5, for the whole stream; where it ramps, the highest.
        visits: How often the order is gone through; the label order is drawn anew each time.
        batch_size: Samples per batch.
        seed: 0 or more.
        arrival: A name of :data:`ARRIVALS`.
        length: Samples of a burst or a freeze, 200 if left out; other arrivals take none.
        imbalance: Of a long tail, how many times as large the first class is as the last, 100 if
            left out; other arrivals take none.
        device: Where the batches go.
        prefetch: How many batches a background thread reads ahead; 0 for no thread.

    Attributes:
        setting: The row of :data:`SETTINGS`.
        delta: The concentration in force: ``math.inf`` in independent settings.
        domains: Names in the order of the visits.
        arrival: The row of :data:`ARRIVALS`.

    Raises:
        ValueError: An argument is unknown or out of range.

    Example:
        >>> import numpy as np
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
        arrival: str = "steady",
        length: int | None = None,
        imbalance: float | None = None,
        device: str | torch.device = "cpu",
        prefetch: int = 2,
    ) -> None:
        self.setting = lookup(SETTINGS, setting, "setting")
        self.domains = resolve_order(order, dataset.domains)
        check_delta(delta)
        _check_at_least(1, visits=visits, batch_size=batch_size)
        _check_at_least(0, seed=seed, prefetch=prefetch)
        check_severity(severity)
        self.arrival = lookup(ARRIVALS, arrival, "arrival")
        _check_arrival(self.arrival, self.setting, dataset)
        check_taken([self.arrival], length=length, imbalance=imbalance)
        given = self.arrival.given(length=length, imbalance=imbalance)
        _check_at_least(1, **given)
        self.dataset = dataset
        self.delta = delta if self.setting.correlated else math.inf
        self.severity = int(severity)
        self.visits = visits
        self.batch_size = batch_size
        self.seed = seed
        self.device = torch.device(device)
        self.prefetch = prefetch
        self._terms = Terms(len(dataset.classes), self.severity, **given)
        self.length, self.imbalance = self._terms.length, self._terms.imbalance
        self._open = OpenDomains(dataset, self.domains)

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

    @property
    def severities(self) -> tuple[int, ...]:
        """Those that occur."""
        return tuple(range(1 if self.arrival.ramps else self.severity, self.severity + 1))

    def starting_at(self, batch_number: int) -> Generator[Batch, None, None]:
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
            yield self._stay(*divmod(number, len(self.domains)))

    def timeline(self) -> Timeline:
        """Label and domain of every sample in the order of arrival; no image is read."""
        whole = Stay.joined(list(self.plan()))
        return Timeline(
            labels=whole.labels,
            domains=whole.domains,
            domain_names=self.domains,
            class_names=tuple(self.dataset.classes),
            delta=self.delta,
            arrival=self.arrival.name,
            severities=whole.severities,
        )

    def labels(self) -> Labels:
        """Label of every sample in the order of arrival, int64, (num_samples,)."""
        return self.timeline().labels

    def domain_sizes(self) -> list[int]:
        """Number of samples of each domain in one visit, in the order of the visits."""
        return list(self._sizes())

    def _sizes(self) -> Iterator[int]:
        """Samples of each domain, which is opened when its turn comes."""
        every = range(len(self.domains))
        labels = (self._open.labels(domain, self.severity) for domain in every)
        return (self.arrival.size(each, self._terms) for each in labels)

    def _stay(self, visit: int, place: int) -> Stay:
        """The stay at a place in the order of domains, on one of the visits."""
        pool = self._mixed(visit, place) if self.arrival.mixes else self._whole(visit, place)
        rng = generator(self.seed, visit, self.domains[place])
        steady = pool.take(dirichlet(pool.labels, self._terms.num_classes, self.delta, rng))
        return self.arrival.change(steady, self._terms, rng)

    def _whole(self, visit: int, domain: int) -> Stay:
        labels = self._open.labels(domain, self.severity)
        return whole_domain(visit, domain, self.severity, labels)

    def _mixed(self, visit: int, place: int) -> Stay:
        wholes = [self._whole(visit, domain) for domain in range(len(self.domains))]
        return mixed(wholes, place, generator(self.seed, visit, self.arrival.name))

    def _deliver(self, cuts: Iterator[list[Piece]], number: int) -> Generator[Batch, None, None]:
        # Only reading happens in the thread. The device is left to the caller's thread, with
        # its current CUDA stream; another thread would break the capture of a CUDA graph.
        loaded = (self._loaded(pieces) for pieces in cuts)
        # Divided by a tensor, since CUDA multiplies by the reciprocal of a number: this way a
        # stream has the same bytes on every device.
        white = torch.tensor(255.0, dtype=torch.float32, device=self.device)
        with closing(prefetched(loaded, self.prefetch)) as ready:
            for samples, pixels, restart in ready:
                yield self._batch(pixels.to(self.device) / white, samples, restart, number)
                number += 1

    def _loaded(self, pieces: list[Piece]) -> tuple[Stay, Tensor, bool]:
        samples = Stay.joined([piece.samples for piece in pieces])
        restart = not self.setting.changing and pieces[0].start == 0
        return samples, self._open.images(samples), restart

    def _batch(self, x: Tensor, samples: Stay, restart: bool, number: int) -> Batch:
        def column(values: Indices) -> Tensor:
            return torch.from_numpy(values).to(self.device)

        return Batch(
            x=x,
            y=column(samples.labels),
            domain=column(samples.domains),
            visit=column(samples.visits),
            index=column(samples.indices),
            restart=restart,
            number=number,
        )


def _check_arrival(arrival: Arrival, setting: Setting, dataset: Dataset) -> None:
    if arrival.mixes and not setting.changing:
        raise ValueError(
            f"arrival {arrival.name!r} has no borders at which a model could start afresh, as "
            f"setting {setting.name!r} has it do: choose setting continual or ptta"
        )
    if arrival.ramps and not any(name in CORRUPTIONS for name in dataset.domains):
        raise ValueError(
            f"arrival {arrival.name!r} ramps the severity of corruptions, and this dataset has "
            f"none (its domains: {', '.join(dataset.domains)}): choose a corrupted dataset"
        )


def _check_at_least(least: int, **arguments: float) -> None:
    for name, value in arguments.items():
        if not value >= least:  # written so that NaN fails too
            raise ValueError(f"{name} must be {least} or more, got {value}")
