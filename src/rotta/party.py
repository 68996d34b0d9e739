"""Methods that go along a stream together, in legs, and what became of each of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rotta.adapters.choice import MethodChoice
from rotta.ends import Failed, Finished, Look
from rotta.legs import NOTES_OF_A_LEG, Leg, LegEnd, LegLook, cut_into_legs
from rotta.side_by_side import Lost
from rotta.state_file import state_from_bytes
from rotta.stopwatch import mean_ms
from rotta.streams import Stream
from rotta.walk import Notes


class Party:
    """All methods of a seed that keep nothing from batch to batch.

    Args:
        choices: The methods.
        stream: Along which they go.
        jobs: How many processes will take legs.

    Attributes:
        legs: To be done in any order.
    """

    def __init__(self, choices: Sequence[MethodChoice], stream: Stream, jobs: int) -> None:
        self._stream = stream
        cuts = cut_into_legs(len(stream), jobs)
        self.legs = [Leg(tuple(choices), stream.seed, batches) for batches in cuts]
        # of those that are neither finished nor failed, by the first batch of a leg
        self._notes: dict[str, dict[int, bytes]] = {choice.label: {} for choice in choices}
        self._looks: dict[str, dict[int, Look]] = {choice.label: {} for choice in choices}

    def look(self, news: LegLook, processes: int) -> Look | None:
        """Where a method is on all legs together, or none if it has failed on another leg.

        Args:
            news: Of one of the legs.
            processes: How many are at legs of this party just now.
        """
        label = news.look.label
        if label not in self._notes:
            return None
        self._looks[label][news.first_batch] = news.look
        legs = self._looks[label].values()
        batches = sum(leg.batches for leg in legs)
        # each leg's is a mean over domains: together they are near that of a walk, not the same
        error = sum(leg.error * leg.batches for leg in legs) / max(1, batches)
        seconds = sum(leg.seconds for leg in legs)
        speed = processes * _speed_on(legs)
        return Look(label, self._stream.seed, batches, len(self._stream), error, seconds, speed)

    def end(self, leg: Leg, end: LegEnd | Lost) -> Iterator[Finished | Failed]:
        """Take in what became of a leg; yield what became of a method, as soon as that is known.

        The other legs of a method that has failed are done all the same: if the run is resumed,
        their checkpoints are there.
        """
        for label in tuple(self._notes):
            notes = Failed(label, leg.seed, end.reason, "") if isinstance(end, Lost) else end[label]
            if isinstance(notes, Failed):
                del self._notes[label]
                yield notes
                continue
            self._notes[label][leg.batches.start] = notes
            if len(self._notes[label]) == len(self.legs):
                yield self._joined(label, self._notes.pop(label))

    def _joined(self, label: str, notes_of: dict[int, bytes]) -> Finished:
        """One walk of all legs: the same figures as if nobody had cut the stream."""
        notes, calls = Notes(self._stream), list[float]()
        for _, data in sorted(notes_of.items()):
            parts: Any = state_from_bytes(data, NOTES_OF_A_LEG, "what a process sent")
            notes.join(parts["notes"])
            calls += parts["stopwatch"]["milliseconds"].tolist()
        result = notes.result(mean_ms(calls))
        return Finished(label, self._stream.seed, sum(calls) / 1000, result)


def _speed_on(legs: Iterable[Look]) -> float:
    """Batches per second of one process, over all legs; 0 where none has a speed."""
    known = [leg for leg in legs if leg.speed > 0]
    seconds = sum(leg.batches / leg.speed for leg in known)
    return sum(leg.batches for leg in known) / seconds if seconds else 0.0
