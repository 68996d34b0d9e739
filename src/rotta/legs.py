"""Legs: pieces of a stream along which methods go together that keep nothing on the way.

Where the answer to a batch depends on that batch alone, it does not matter who has seen the
batches before. So a stream can be cut, and the legs be gone along in any order, by any process.
Each batch is read once for all methods, and those that answer from the same pass through the
network have it done once.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from rotta.adapters import Adapter
from rotta.adapters.choice import MethodChoice
from rotta.adapters.unchanged import SharedPass, share_pass
from rotta.checkpoint import Checkpoint, Resumable
from rotta.ends import Failed, Look
from rotta.evaluate import evaluate
from rotta.metrics import batches_per_window
from rotta.own_errors import Answerable, MethodRaised
from rotta.state_file import state_to_bytes
from rotta.stopwatch import Stopwatch
from rotta.streams import Batch, Stream
from rotta.walk import SECONDS_PER_LOOK, Notes

LEAST_BATCHES = 8
"""Of a leg: building the methods anew takes a third of a batch, reading ahead in vain a little."""
NOTES_OF_A_LEG = "notes of a leg"
"""The kind of the bytes in a :data:`LegEnd`, by which :mod:`rotta.state_file` knows them."""


@dataclass(frozen=True)
class Leg:
    """A piece of a stream, and who goes along it."""

    choices: tuple[MethodChoice, ...]
    seed: int
    """Of the stream."""
    batches: range
    """Numbers in the stream."""


@dataclass(frozen=True)
class LegLook:
    """Where a method is on a leg."""

    first_batch: int
    """Of the leg, which tells it from others of the same stream."""
    look: Look
    """Batches, error, seconds and speed of the leg alone."""


LegEnd = dict[str, bytes | Failed]
"""By label: notes and times, or what the method raised. Bytes, for processes that share tensors
have to outlive each other."""


def cut_into_legs(batches: int, jobs: int) -> list[range]:
    """Legs that become shorter and shorter, so that processes which take them end together.

    Each takes so much of what is left that twice as many as there are processes would do. Cuts are
    where windows of :class:`~rotta.metrics.Course` end: sums over a window are those of one walk,
    to the last digit.

    Args:
        batches: Of the stream.
        jobs: How many processes take legs.

    Example:
        >>> [len(leg) for leg in cut_into_legs(841, jobs=2)]
        [208, 152, 120, 88, 64, 48, 40, 24, 24, 16, 8, 8, 8, 8, 8, 8, 9]
    """
    window = batches_per_window(batches)
    least = math.ceil(LEAST_BATCHES / window) * window
    legs, start = [], 0
    while start < batches:
        share = (batches - start) // (2 * jobs)
        stop = start + max(least, share - share % window)
        if batches - stop < least:
            stop = batches
        legs.append(range(start, stop))
        start = stop
    return legs or [range(0)]  # an empty stream too has an end


class Walker:
    """One method on a leg, with its notes.

    Args:
        label: Of the method, with its options.
        method: Keeps nothing from batch to batch.
        stream: Of which the leg is a piece.
        batches: The leg.
        checkpoint: Of this method and leg; if there is one on the disk, it goes on from there.

    Attributes:
        reached: The number of the batch that comes next.

    Raises:
        ValueError: The checkpoint is of another walk, or damaged.
    """

    def __init__(
        self,
        label: str,
        method: Adapter,
        stream: Stream,
        batches: range,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.label = label
        self.method = method
        self._stream = stream
        self._batches = batches
        self._checkpoint = checkpoint
        self._answerable = Answerable(method)
        self._notes = Notes(stream, first_batch=batches.start)
        self._timed = Stopwatch(self._answerable, stream.device)
        self._parts: dict[str, Resumable] = {"notes": self._notes, "stopwatch": self._timed}
        self._kept = 0 if checkpoint is None else checkpoint.resume(stream, self._parts)
        self.reached = max(self._kept, batches.start)

    def take(self, batch: Batch, shared: SharedPass | None) -> None:
        """Answer a batch, unless that was done before the break.

        Args:
            batch: Of the leg.
            shared: Charged in full, whoever had it done: what the method costs is what it would
                cost alone.

        Raises:
            MethodRaised: The method did.
        """
        if batch.number < self.reached:
            return
        before = 0.0 if shared is None else shared.spared_ms
        for step in evaluate(self._timed, [batch]):
            self._notes.add(step, self._answerable)
        if shared is not None:
            self._timed.charge(shared.spared_ms - before)
        self.reached = batch.number + 1
        if self._checkpoint is not None and self._checkpoint.is_due():
            self._keep(self._checkpoint)

    def look(self, speed: float) -> LegLook:
        """Where it is.

        Args:
            speed: Batches per second of all who go along the leg.
        """
        done, seconds = self.reached - self._batches.start, self._timed.seconds()
        total, error = len(self._stream), self._notes.error()
        look = Look(self.label, self._stream.seed, done, total, error, seconds, speed)
        return LegLook(self._batches.start, look)

    def end(self) -> bytes:
        """Its notes; where there are checkpoints they are kept too: no leg is done twice."""
        checkpoint = self._checkpoint
        if checkpoint is not None and checkpoint.is_wanted and self._kept < self.reached:
            self._keep(checkpoint)
        states = {name: part.state() for name, part in self._parts.items()}
        return state_to_bytes(NOTES_OF_A_LEG, states)

    def _keep(self, checkpoint: Checkpoint) -> None:
        checkpoint.keep(self.reached, self._stream, self._parts)
        self._kept = self.reached


def walk_leg(
    walkers: Sequence[Walker],
    stream: Stream,
    batches: range,
    tell: Callable[[LegLook], None] | None = None,
) -> LegEnd:
    """Lead methods along a leg together. One that raises stays behind alone.

    Args:
        walkers: At least one, around the same network.
        stream: Read from the first batch that somebody has not done.
        batches: The leg.
        tell: Is told now and then, and at the end, where each of them is.

    Raises:
        OSError: A checkpoint cannot be written.
    """
    shared = share_pass([walker.method for walker in walkers])
    walking, ends, last_look = list(walkers), LegEnd(), -math.inf
    start, gone, began = min(walker.reached for walker in walkers), 0, time.monotonic()
    with closing(stream.starting_at(start)) as rest:
        for batch in islice(rest, batches.stop - start):
            if not walking:
                break
            if shared is not None:
                shared.next_batch()
            for walker in tuple(walking):
                try:
                    walker.take(batch, shared)
                except MethodRaised as raised:
                    ends[walker.label] = raised.failed(walker.label, stream.seed)
                    walking.remove(walker)
            gone += 1
            if tell is not None and time.monotonic() - last_look >= SECONDS_PER_LOOK:
                _tell_of(walking, tell, gone, time.monotonic() - began)
                last_look = time.monotonic()
    if tell is not None:
        _tell_of(walking, tell, gone, time.monotonic() - began)
    return ends | {walker.label: walker.end() for walker in walking}


def _tell_of(
    walking: Sequence[Walker], tell: Callable[[LegLook], None], gone: int, seconds: float
) -> None:
    """Where they are, who have gone along so many batches of the leg in so long."""
    for walker in walking:
        tell(walker.look(speed=gone / seconds if seconds else 0.0))
