"""One walk of an experiment, done wherever there is room: here, elsewhere, on a cluster."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch

from rotta.adapters.choice import parse_methods
from rotta.comparison import Failed, Look, compare, configuration
from rotta.datasets import Dataset, load_dataset
from rotta.experiments.experiment import Training, Variant
from rotta.experiments.training import source_error, train_source
from rotta.experiments.under_way import checkpoints_of
from rotta.models import Classifier, load_source
from rotta.models.checksum import checksum
from rotta.results import SeedResult, provenance
from rotta.streams import PAPER_ORDER, Stream
from rotta.streams.domains import ORDERS, SETTINGS
from rotta.walk import SECONDS_PER_LOOK

_DATASETS_KEPT = 2  # open at the same time: an experiment uses one after the other


class WalkFailed(Exception):
    """Says what a method raised on its way."""


@dataclass(frozen=True)
class Walk:
    """A method along the stream of one seed. All that a worker is told."""

    variant: Variant
    method: str
    seed: int
    limit: int | None
    """Images per domain; all if there is none."""
    device: str

    @property
    def identity(self) -> "Identity":
        """What decides its result; the experiment that it is part of does not."""
        variant = self.variant
        return Identity(
            dataset=variant.dataset,
            source=variant.source_name,
            setting=variant.setting,
            delta=variant.delta if SETTINGS[variant.setting].correlated else None,
            order=_order(variant),
            visits=variant.visits,
            batch_size=variant.batch_size,
            split=variant.split,
            image_size=variant.image_size,
            limit=self.limit,
            method=self.method,
            seed=self.seed,
        )


class Identity(NamedTuple):
    """Walks that agree in all of this have the same result."""

    dataset: str
    source: str
    setting: str
    delta: float | None
    """None where samples are independent."""
    order: tuple[str, ...] | None
    """None for all domains of a dataset, in its own order."""
    visits: int
    batch_size: int
    split: str
    image_size: int | None
    limit: int | None
    method: str
    seed: int


def identity_of(config: Mapping[str, Any], method: str, seed: int) -> Identity:
    """That of a finished walk, by what its result states."""
    own: dict[str, Any] = {"order": tuple(config["order"]), "method": method, "seed": seed}
    return Identity(**{name: config[name] for name in Identity._fields if name not in own}, **own)


@dataclass(frozen=True)
class SourceTask:
    """A source model to be trained, before the walks that start from it."""

    training: Training
    device: str


@dataclass(frozen=True)
class Walked:
    """What a walk brought."""

    result: SeedResult
    config: dict[str, Any]
    """Of the stream."""
    options: dict[str, Any]
    """Of the method."""
    provenance: dict[str, Any]


def prepare(task: SourceTask, tell: Callable[[Look], None] | None = None) -> float:
    """Train a source model unless it is there; its error on its own domain's test images."""
    name, seed = f"training {task.training.name}", task.training.seed
    start = last_look = time.monotonic()

    def progress(steps: int, total: int) -> None:
        nonlocal last_look
        now = time.monotonic()
        if tell is not None and now - last_look >= SECONDS_PER_LOOK:
            tell(Look(name, seed, steps, total, math.nan, now - start))
            last_look = now

    with _one_thread(task.device):
        return source_error(train_source(task.training, task.device, progress))


def perform(walk: Walk, tell: Callable[[Look], None] | None = None) -> Walked:
    """Do a walk; the same walk gives the same errors, whoever does it.

    One of several visits that was killed goes on from its last checkpoint, which stays until
    :func:`~rotta.experiments.under_way.forget` is called.

    Raises:
        WalkFailed: The method raised.
    """
    with _one_thread(walk.device):
        return _performed(walk, tell)


def _performed(walk: Walk, tell: Callable[[Look], None] | None) -> Walked:
    variant = walk.variant
    data = _dataset(
        variant.dataset, variant.split, walk.limit, variant.image_size, device=walk.device
    )
    stream = Stream(
        data,
        setting=variant.setting,
        delta=variant.delta,
        order=variant.order,
        visits=variant.visits,
        batch_size=variant.batch_size,
        seed=walk.seed,
        device=walk.device,
    )
    (choice,) = parse_methods(walk.method)
    net = _network(variant.source, walk.device)
    threads = 1 if walk.device == "cpu" else None
    origin = provenance(walk.device, data.provenance, threads=threads)
    origin["source weights"] = _source_checksum(variant.source, walk.device)
    kept = checkpoints_of(walk, choice.settings, origin)
    ends = compare([choice], net, [walk.seed], lambda _: stream, tell, checkpoints=kept)
    with closing(ends):
        end = next(ends)  # and no further: a checkpoint stays until the result is in its place
    if isinstance(end, Failed):
        raise WalkFailed(end.reason)
    config = {
        **configuration(variant.dataset, variant.source_name, stream),
        "limit": walk.limit,
        "split": variant.split,
        "image_size": variant.image_size,
    }
    if isinstance(variant.source, Training):
        config["source_error"] = _source_error(variant.source, walk.device)
    # the bank's course is for the page of a run; over hundreds of walks it would fill the disk
    return Walked(replace(end.result, bank=None), config, choice.settings, origin)


@contextmanager
def _one_thread(device: str) -> Iterator[None]:
    """On the CPU: sums of one thread and of several differ in the last bit, and walks with them."""
    before = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=_DATASETS_KEPT)
def _dataset(
    name: str, split: str, limit: int | None, image_size: int | None, device: str
) -> Dataset:
    return load_dataset(name, split=split, limit=limit, image_size=image_size, device=device)


@cache
def _network(source: str | Training, device: str) -> Classifier:
    if isinstance(source, Training):
        return load_source(train_source(source, device))
    return load_source(source)


@cache
def _source_checksum(source: str | Training, device: str) -> str:
    return checksum(_network(source, device))


@cache
def _source_error(training: Training, device: str) -> float:
    return source_error(train_source(training, device))


def _order(variant: Variant) -> tuple[str, ...] | None:
    if variant.order is None:
        return PAPER_ORDER if variant.dataset.endswith("-c") else None
    return ORDERS[variant.order] if isinstance(variant.order, int) else variant.order
