"""Methods over the same streams: each method along the stream of each seed."""

import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rotta.adapters.choice import MethodChoice
from rotta.adapters.methods import METHODS
from rotta.metrics import Memory
from rotta.results import SeedResult
from rotta.side_by_side import Lost, check_jobs, side_by_side
from rotta.streams import Stream
from rotta.walk import walk


@dataclass(frozen=True)
class Look:
    """Where a walk is."""

    label: str
    seed: int
    batches: int
    """Done so far."""
    total: int
    error: float
    """So far, in percent."""
    seconds: float
    """Since its start."""


@dataclass(frozen=True)
class Finished:
    """A walk that came to its end."""

    label: str
    seed: int
    seconds: float
    result: SeedResult


@dataclass(frozen=True)
class Failed:
    """A walk on which the method raised, or the process died."""

    label: str
    seed: int
    reason: str
    traceback: str


def configuration(dataset: str, source: str, stream: Stream) -> dict[str, Any]:
    """What a result states about the stream that its walks went along.

    Args:
        dataset: Its name.
        source: The name of the network before adaptation.
        stream: Over that dataset.
    """
    return {
        "dataset": dataset,
        "source": source,
        "setting": stream.setting.name,
        "delta": None if isinf(stream.delta) else stream.delta,  # JSON has no infinity
        "order": list(stream.domains),
        "domain_sizes": stream.domain_sizes(),
        "severity": stream.severity,
        "visits": stream.visits,
        "batch_size": stream.batch_size,
        "classes": list(stream.dataset.classes),
    }


def compare(
    choices: Sequence[MethodChoice],
    net: nn.Module,
    seeds: Sequence[int],
    stream_of: Callable[[int], Stream],
    look: Callable[[Look], None] | None = None,
    jobs: int = 1,
) -> Generator[Finished | Failed, None, None]:
    """Lead every method along the stream of every seed, seed by seed.

    Before the first step, every method is built once, so that one that does not suit the network
    is refused before anything is computed. A method that raises on its way ends that walk alone;
    what the stream raises ends the comparison.

    Args:
        choices: The methods; each is built afresh for each seed, with the stream's seed as its own.
        net: The source network, which the methods do not change. It goes to the stream's device.
        seeds: At least one.
        stream_of: The stream of a seed; all methods get the same.
        look: Is told now and then how far a walk is.
        jobs: How many walks go on at the same time, on Linux and the CPU. More than one: in
            processes of one thread each, forked when the first end is asked for, the dearest
            walks first; images that have to be made are made before.

    Yields:
        What became of each walk, as soon as it is over.

    Raises:
        ValueError: A method does not suit the network, or so many jobs cannot be.

    Example:
        >>> import rotta
        >>> from rotta.adapters.choice import parse_methods
        >>> data = rotta.load_dataset("digits", limit=100)
        >>> source, net = parse_methods("source"), rotta.load_source("digits")
        >>> for end in compare(source, net, [0, 1], lambda seed: rotta.Stream(data, seed=seed)):
        ...     print(end.label, end.seed, end.result.average_error)
        source 0 1.0
        source 1 1.0
    """
    first = stream_of(seeds[0])
    check_jobs(jobs, first.device)
    # measured: the faster layout on GPUs, and on CPUs too
    net = net.to(first.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    for choice in choices:
        try:
            choice.build(net, len(first.dataset.classes), seed=seeds[0])
        except (RuntimeError, MemoryError, OverflowError) as error:
            raise ValueError(f"{choice.label} cannot be built: {error}") from error
    if jobs == 1:
        return _one_by_one(choices, net, seeds, stream_of, look)
    _make_images(first)
    return _side_by_side(choices, net, seeds, stream_of, look, jobs)


def _one_by_one(
    choices: Sequence[MethodChoice],
    net: nn.Module,
    seeds: Sequence[int],
    stream_of: Callable[[int], Stream],
    look: Callable[[Look], None] | None,
) -> Generator[Finished | Failed, None, None]:
    for seed in seeds:
        stream = stream_of(seed)
        for choice in choices:
            yield _walked(choice, net, stream, look)


def _side_by_side(
    choices: Sequence[MethodChoice],
    net: nn.Module,
    seeds: Sequence[int],
    stream_of: Callable[[int], Stream],
    look: Callable[[Look], None] | None,
    jobs: int,
) -> Generator[Finished | Failed, None, None]:
    def lead(
        walk: tuple[MethodChoice, int], look: Callable[[Look], None] | None
    ) -> Finished | Failed:
        choice, seed = walk
        return _walked(choice, net, stream_of(seed), look)

    walks = [(choice, seed) for seed in seeds for choice in choices]
    # a long walk begun last would go on alone
    walks.sort(key=lambda walk: METHODS[walk[0].name].PASSES, reverse=True)
    with closing(side_by_side(walks, lead, jobs, look)) as ends:
        for (choice, seed), end in ends:
            yield Failed(choice.label, seed, end.reason, "") if isinstance(end, Lost) else end


def _make_images(stream: Stream) -> None:
    """Have images that are made when first read made now, once, and not in every process."""
    for name in stream.domains:
        images = stream.dataset.domain(name, severity=stream.severity)
        images.images(np.arange(len(images.labels))[:1])


def _walked(
    choice: MethodChoice, net: nn.Module, stream: Stream, look: Callable[[Look], None] | None
) -> Finished | Failed:
    start = time.monotonic()
    try:
        with _as_its_own():
            method = choice.build(net, len(stream.dataset.classes), seed=stream.seed)
        result = walk(_Guarded(method), stream, _teller(look, choice.label, stream))
    except _MethodRaised as raised:
        where = "".join(traceback.format_exception(raised.__cause__))
        return Failed(choice.label, stream.seed, str(raised), where)
    return Finished(choice.label, stream.seed, time.monotonic() - start, result)


def _teller(
    look: Callable[[Look], None] | None, label: str, stream: Stream
) -> Callable[[int, float], None] | None:
    if look is None:
        return None
    total, start = len(stream), time.monotonic()
    return lambda batches, error: look(
        Look(label, stream.seed, batches, total, error, time.monotonic() - start)
    )


class _MethodRaised(Exception):
    """Tells what a method raised from what its stream raised."""


class _Guarded:
    """A method whose exceptions say that they are its own."""

    def __init__(self, method: nn.Module) -> None:
        self._method = method

    def __call__(self, x: Tensor) -> Tensor:
        with _as_its_own():
            logits: Tensor = self._method(x)
            return logits

    def reset(self) -> None:
        reset = getattr(self._method, "reset", None)
        if reset is not None:
            with _as_its_own():
                reset()

    @property
    def bank(self) -> Memory | None:
        return getattr(self._method, "bank", None)


@contextmanager
def _as_its_own() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _MethodRaised(f"{type(error).__name__}: {error}") from error
