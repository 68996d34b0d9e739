"""Methods over the same streams: each method along the stream of each seed."""

import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from math import isinf
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rotta.adapters.choice import MethodChoice
from rotta.adapters.methods import METHODS
from rotta.checkpoint import Checkpoints
from rotta.guard import Event
from rotta.metrics import Memory
from rotta.models.checksum import checksum
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
        "arrival": stream.arrival.name,
        "length": stream.length,
        "imbalance": stream.imbalance,
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
    checkpoints: Checkpoints | None = None,
    finished: Collection[tuple[str, int]] = (),
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
        checkpoints: Kept on the way. Walks of which there is one go on from it; that of a walk
            which has come to its end is removed when the next end is asked for.
        finished: Walks to leave out, by label and seed.

    Yields:
        What became of each walk, as soon as it is over.

    Raises:
        ValueError: A method does not suit the network, so many jobs cannot be, or a checkpoint is
            of another walk.

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
    check_methods(choices, net, first)
    leader = _Leader(net, checkpoints, checksum(net) if checkpoints is not None else "")
    walks = [
        (choice, seed)
        for seed in seeds
        for choice in choices
        if (choice.label, seed) not in finished
    ]
    if checkpoints is not None:
        for label, seed in finished:  # whoever finished them may have been killed right then
            checkpoints.remove(label, seed)
    if jobs == 1:
        return leader.removing(_one_by_one(walks, leader, stream_of, look))
    _make_images(first)
    return leader.removing(_side_by_side(walks, leader, stream_of, look, jobs))


def check_methods(choices: Sequence[MethodChoice], net: nn.Module, stream: Stream) -> None:
    """Build every method once, to see that it can be.

    Args:
        choices: The methods.
        net: The source network. It goes to the stream's device.
        stream: Whose device, classes and seed they get.

    Raises:
        ValueError: One does not suit the network.
    """
    # measured: the faster layout on GPUs, and on CPUs too
    net.to(stream.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    for choice in choices:
        try:
            choice.build(net, len(stream.dataset.classes), seed=stream.seed)
        except (RuntimeError, MemoryError, OverflowError) as error:
            raise ValueError(f"{choice.label} cannot be built: {error}") from error


_Walk = tuple[MethodChoice, int]
_Ends = Generator[Finished | Failed, None, None]


def _one_by_one(
    walks: Sequence[_Walk],
    leader: "_Leader",
    stream_of: Callable[[int], Stream],
    look: Callable[[Look], None] | None,
) -> _Ends:
    for seed, of_seed in groupby(walks, key=lambda walk: walk[1]):
        stream = stream_of(seed)
        for choice, _ in of_seed:
            yield leader.lead(choice, stream, look)


def _side_by_side(
    walks: Sequence[_Walk],
    leader: "_Leader",
    stream_of: Callable[[int], Stream],
    look: Callable[[Look], None] | None,
    jobs: int,
) -> _Ends:
    def lead(walk: _Walk, look: Callable[[Look], None] | None) -> Finished | Failed:
        choice, seed = walk
        return leader.lead(choice, stream_of(seed), look)

    # a long walk begun last would go on alone
    dearest_first = sorted(walks, key=lambda walk: METHODS[walk[0].name].PASSES, reverse=True)
    with closing(side_by_side(dearest_first, lead, jobs, look)) as ends:
        for (choice, seed), end in ends:
            yield Failed(choice.label, seed, end.reason, "") if isinstance(end, Lost) else end


def _make_images(stream: Stream) -> None:
    """Have images that are made when first read made now, once, and not in every process."""
    for name in stream.domains:
        for severity in stream.severities:
            images = stream.dataset.domain(name, severity=severity)
            images.images(np.arange(len(images.labels))[:1])


@dataclass(frozen=True)
class _Leader:
    """Leads methods along streams, and keeps checkpoints if it shall."""

    net: nn.Module
    checkpoints: Checkpoints | None
    network: str
    """The checksum of ``net``, where there are checkpoints."""

    def lead(
        self, choice: MethodChoice, stream: Stream, look: Callable[[Look], None] | None
    ) -> Finished | Failed:
        """Build a method and let it walk."""
        start, checkpoint = time.monotonic(), None
        try:
            with _as_its_own():
                method = choice.build(self.net, len(stream.dataset.classes), seed=stream.seed)
            if self.checkpoints is not None:
                walk_name = choice.label, stream.seed
                checkpoint = self.checkpoints.of(*walk_name, method, self.network)
            tell = _teller(look, choice.label, stream)
            result = walk(_Guarded(method), stream, tell, checkpoint)
        except _MethodRaised as raised:
            where = "".join(traceback.format_exception(raised.__cause__))
            return Failed(choice.label, stream.seed, str(raised), where)
        return Finished(choice.label, stream.seed, time.monotonic() - start, result)

    def removing(self, ends: _Ends) -> _Ends:
        """The same ends; who asks for the next one has put a walk's result in a safe place."""
        with closing(ends):
            for end in ends:
                yield end
                if self.checkpoints is not None and isinstance(end, Finished):
                    self.checkpoints.remove(end.label, end.seed)


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

    @property
    def events(self) -> list[Event]:
        return getattr(self._method, "events", [])

    @property
    def skipped(self) -> dict[str, int]:
        return getattr(self._method, "skipped", {})


@contextmanager
def _as_its_own() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _MethodRaised(f"{type(error).__name__}: {error}") from error
