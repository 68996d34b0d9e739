"""One walk of an experiment, done wherever there is room: here, elsewhere, on a cluster."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import torch

from rotta.adapters.choice import parse_methods
from rotta.comparison import Failed, Look, compare, configuration
from rotta.datasets import Dataset, load_dataset
from rotta.experiments.experiment import Training, Variant
from rotta.experiments.training import source_error, train_source
from rotta.models import Classifier, load_source
from rotta.models.checksum import checksum
from rotta.results import SeedResult, provenance
from rotta.streams import PAPER_ORDER, Stream
from rotta.streams.domains import ORDERS, SETTINGS

_DATASETS_KEPT = 2  # open at the same time: an experiment uses one after the other


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
        return (
            variant.dataset,
            variant.source_name,
            variant.setting,
            variant.delta if SETTINGS[variant.setting].correlated else None,
            _order(variant),
            variant.batch_size,
            variant.split,
            variant.image_size,
            self.limit,
            self.method,
            self.seed,
        )


Identity = tuple[object, ...]


def identity_of(config: dict[str, Any], method: str, seed: int) -> Identity:
    """That of a finished walk, by what its result states."""
    return (
        config["dataset"],
        config["source"],
        config["setting"],
        config["delta"],
        tuple(config["order"]),
        config["batch_size"],
        config["split"],
        config["image_size"],
        config["limit"],
        method,
        seed,
    )


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


def prepare(task: SourceTask, tell: Callable[[Any], None] | None = None) -> float:  # noqa: ARG001 (news of walks only)
    """Train a source model unless it is there; its error on its own domain's test images."""
    _compute_alike(task.device)
    return source_error(train_source(task.training, task.device))


def perform(walk: Walk, tell: Callable[[Look], None] | None = None) -> Walked:
    """Do a walk; the same walk gives the same errors, whoever does it.

    Raises:
        RuntimeError: The method raised.
    """
    _compute_alike(walk.device)
    variant = walk.variant
    data = _dataset(
        variant.dataset, variant.split, walk.limit, variant.image_size, device=walk.device
    )
    stream = Stream(
        data,
        setting=variant.setting,
        delta=variant.delta,
        order=variant.order,
        batch_size=variant.batch_size,
        seed=walk.seed,
        device=walk.device,
    )
    (choice,) = parse_methods(walk.method)
    net = _network(variant.source, walk.device)
    (end,) = compare([choice], net, [walk.seed], lambda _: stream, tell)
    if isinstance(end, Failed):
        raise RuntimeError(end.reason)
    config = {
        **configuration(variant.dataset, variant.source_name, stream),
        "limit": walk.limit,
        "split": variant.split,
        "image_size": variant.image_size,
    }
    if isinstance(variant.source, Training):
        config["source_error"] = _source_error(variant.source, walk.device)
    threads = 1 if walk.device == "cpu" else None
    origin = provenance(walk.device, data.provenance, threads=threads)
    origin["source weights"] = _source_checksum(variant.source, walk.device)
    # the bank's course is for the page of a run; over hundreds of walks it would fill the disk
    return Walked(replace(end.result, bank=None), config, choice.settings, origin)


def _compute_alike(device: str) -> None:
    """Sums of one thread and of several differ in the last bit, and walks with them."""
    if device == "cpu":
        torch.set_num_threads(1)


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


def _order(variant: Variant) -> tuple[str, ...]:
    """Names of domains; where none are given, those of the 15 corruptions."""
    order = PAPER_ORDER if variant.order is None else variant.order
    return ORDERS[order] if isinstance(order, int) else order
