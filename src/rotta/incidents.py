"""What befell a method on a walk: what its guard did, and which input it skipped."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rotta.guard import Event
from rotta.kept import counts_by_name, whole_number
from rotta.results import GuardEvent, read_event
from rotta.streams import Batch


class Incidents:
    """All of it, in terms of the stream. A method that is reset forgets; a walk does not.

    Args:
        domains: Names of the stream's domains.

    Attributes:
        events: What the guard did, the newest last.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> batch = SimpleNamespace(
        ...     number=7, y=torch.zeros(4), domain=torch.tensor([0, 1, 1, 1]), restart=False
        ... )
        >>> incidents = Incidents(["fog", "snow"])
        >>> incidents.add(batch, [], {"range": 2, "empty": 0})
        >>> incidents.events, incidents.skipped()
        ([], {'range': 2})
    """

    def __init__(self, domains: Sequence[str]) -> None:
        self.events: list[GuardEvent] = []
        self._domains = tuple(domains)
        self._samples = 0
        self._last: Event | None = None  # of those that the method remembers
        self._skipped: Counter[str] = Counter()
        self._skipped_before: Mapping[str, int] = {}  # as the method counts

    def add(self, batch: Batch, events: Sequence[Event], skipped: Mapping[str, int]) -> None:
        """Note what is new after a batch.

        Args:
            batch: The one that was just predicted.
            events: All that the method remembers, as :attr:`Adapter.events` has them.
            skipped: What it has counted, as :attr:`Adapter.skipped` has it.
        """
        if batch.restart:
            self._last, self._skipped_before = None, {}
        self._samples += len(batch.y)
        for event in _those_after(self._last, events):
            self.events.append(self._placed(event, batch))
        self._last = events[-1] if events else None
        if skipped != self._skipped_before:
            self._skipped.update(_more_than(self._skipped_before, skipped))
            self._skipped_before = dict(skipped)

    def skipped(self) -> dict[str, int] | None:
        """How many images and batches, by reason; none if there were none."""
        return {reason: count for reason, count in self._skipped.items() if count} or None

    def state(self) -> dict[str, Any]:
        """All notes, for :meth:`restore`."""
        return {
            "events": [asdict(event) for event in self.events],
            "samples": self._samples,
            "last": self._last,
            "skipped": dict(self._skipped),
            "skipped_before": self._skipped_before,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the notes of another on the same walk."""
        self.events = [read_event(event) for event in state["events"]]
        self._samples = whole_number(state["samples"])
        self._last = state["last"]
        self._skipped = Counter(counts_by_name(state["skipped"]))
        self._skipped_before = counts_by_name(state["skipped_before"])

    def _placed(self, event: Event, batch: Batch) -> GuardEvent:
        most_of_it = int(batch.domain.cpu().mode().values)
        return GuardEvent(
            batch=batch.number + 1,
            samples=self._samples,
            domain=self._domains[most_of_it],
            action=event["action"],
            cause=event["cause"],
            evidence=event["evidence"],
            rate=event["rate"],
            signals=event["signals"],
        )


def _those_after(last: Event | None, events: Sequence[Event]) -> Sequence[Event]:
    """By value: a method that was loaded holds copies. No two of one method are equal."""
    if not events or events[-1] == last:
        return ()
    return events[events.index(last) + 1 :] if last in events else events


def _more_than(before: Mapping[str, int], now: Mapping[str, int]) -> Mapping[str, int]:
    """What was added; all of it if the method has begun anew meanwhile."""
    if any(now.get(reason, 0) < count for reason, count in before.items()):
        return now
    return {reason: count - before.get(reason, 0) for reason, count in now.items()}
