"""Methods over the same streams: each method along the stream of each seed."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from math import isinf
from typing import Any

import numpy as np
import torch
from torch import nn

from rotta.adapters import Adapter
from rotta.adapters.choice import MethodChoice
from rotta.adapters.methods import METHODS
from rotta.checkpoint import Checkpoint, Checkpoints
from rotta.ends import Failed, Finished, Look
from rotta.legs import Leg, LegEnd, LegLook, Walker, walk_leg
from rotta.models.checksum import checksum
from rotta.own_errors import Answerable, MethodRaised, as_its_own
from rotta.party import Party
from rotta.side_by_side import Lost, check_jobs, side_by_side
from rotta.streams import Stream
from rotta.walk import walk

__all__ = ["Failed", "Finished", "Look", "check_methods", "compare", "configuration"]


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
            walks first; images that have to be made are made before. Methods that keep nothing
            from batch to batch come last, all of a seed together in pieces of the stream (see
            :mod:`rotta.legs`), so that the processes end together. What they share is done once,
            but each is charged all of it: their times are those of a walk alone.
        checkpoints: Kept on the way. Walks of which there is one go on from it; that of a walk
            which has come to its end is removed when the next end is asked for.
        finished: Walks to leave out, by label and seed.

    Yields:
        What became of each walk, as soon as it is over.

    Raises:
        ValueError: A method does not suit the network, a method or seed is named twice, so many
            jobs cannot be, or a checkpoint is of another walk.

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
    labels = [choice.label for choice in choices]
    for named, what in ((labels, "method"), (seeds, "seed")):
        if twice := [each for each, times in Counter(named).items() if times > 1]:
            raise ValueError(f"the {what} {twice[0]} is named twice: name it once")
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
    alone = [walk for walk in walks if not walk[0].keeps_nothing]
    parties = _parties([walk for walk in walks if walk[0].keeps_nothing], stream_of, jobs)
    # what takes long would go on alone, if it were begun last
    alone.sort(key=lambda walk: METHODS[walk[0].name].PASSES, reverse=True)
    legs = [leg for party in parties.values() for leg in party.legs]

    def lead(
        task: _Walk | Leg, tell: Callable[[Look | LegLook], None] | None
    ) -> Finished | Failed | LegEnd:
        if isinstance(task, Leg):
            return leader.lead_together(task, stream_of(task.seed), tell)
        choice, seed = task
        return leader.lead(choice, stream_of(seed), tell)

    def tell(news: Look | LegLook) -> None:
        assert look is not None
        where = of_the_party(news) if isinstance(news, LegLook) else news
        if where is not None:
            look(where)

    def of_the_party(news: LegLook) -> Look | None:
        seed = news.look.seed
        at_it = sum(isinstance(task, Leg) and task.seed == seed for task in under_way)
        return parties[seed].look(news, processes=at_it)

    tasks: list[_Walk | Leg] = [*alone, *legs]
    under_way, waiting = tasks[:jobs], iter(tasks[jobs:])
    with closing(side_by_side(tasks, lead, jobs, None if look is None else tell)) as ends:
        for task, end in ends:
            under_way.remove(task)
            under_way += islice(waiting, 1)  # whoever has ended one has begun the next
            if isinstance(task, Leg):
                assert isinstance(end, dict | Lost)
                yield from parties[task.seed].end(task, end)
                continue
            assert not isinstance(end, dict)
            choice, seed = task
            yield Failed(choice.label, seed, end.reason, "") if isinstance(end, Lost) else end


def _parties(
    walks: Sequence[_Walk], stream_of: Callable[[int], Stream], jobs: int
) -> dict[int, Party]:
    return {
        seed: Party([choice for choice, _ in of_seed], stream_of(seed), jobs)
        for seed, of_seed in groupby(walks, key=lambda walk: walk[1])
    }


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
        start = time.monotonic()
        try:
            method = self._built(choice, stream)
            checkpoint = self._checkpoint(choice, stream, method)
            tell = _teller(look, choice.label, stream)
            result = walk(Answerable(method), stream, tell, checkpoint)
        except MethodRaised as raised:
            return raised.failed(choice.label, stream.seed)
        return Finished(choice.label, stream.seed, time.monotonic() - start, result)

    def lead_together(
        self, leg: Leg, stream: Stream, tell: Callable[[LegLook], None] | None
    ) -> LegEnd:
        """Build the methods of a party and let them go along a leg."""
        walkers, failed = list[Walker](), LegEnd()
        for choice in leg.choices:
            try:
                method = self._built(choice, stream)
            except MethodRaised as raised:
                failed[choice.label] = raised.failed(choice.label, stream.seed)
                continue
            checkpoint = self._checkpoint(choice, stream, method, leg.batches)
            walkers.append(Walker(choice.label, method, stream, leg.batches, checkpoint))
        return failed | walk_leg(walkers, stream, leg.batches, tell) if walkers else failed

    def removing(self, ends: _Ends) -> _Ends:
        """The same ends; who asks for the next one has put a walk's result in a safe place."""
        try:
            with closing(ends):  # whose processes are gone then
                for end in ends:
                    yield end
                    if self.checkpoints is not None and isinstance(end, Finished):
                        self.checkpoints.remove(end.label, end.seed)
        finally:
            if self.checkpoints is not None:
                self.checkpoints.remove_folder()

    def _built(self, choice: MethodChoice, stream: Stream) -> Adapter:
        with as_its_own():
            return choice.build(self.net, len(stream.dataset.classes), seed=stream.seed)

    def _checkpoint(
        self, choice: MethodChoice, stream: Stream, method: Adapter, leg: range | None = None
    ) -> Checkpoint | None:
        if self.checkpoints is None:
            return None
        return self.checkpoints.of(choice.label, stream.seed, method, self.network, leg)


def _teller(
    look: Callable[[Look], None] | None, label: str, stream: Stream
) -> Callable[[int, float], None] | None:
    if look is None:
        return None
    total, start, before = len(stream), time.monotonic(), -1

    def tell(batches: int, error: float) -> None:
        nonlocal before
        if before < 0:
            before = batches - 1  # done before the break, in time that is not known here
        seconds = time.monotonic() - start
        speed = (batches - before) / seconds if seconds else 0.0
        look(Look(label, stream.seed, batches, total, error, seconds, speed))

    return tell
