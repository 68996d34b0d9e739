"""The few numbers of a stream that every answer carries, without asking the pool each time."""

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from rotta.guard import GOOD_NEWS
from rotta.pool import StoreError, StreamInfo, StreamPool

_STREAMS = 65536  # that are counted, those used last


@dataclass(frozen=True)
class StreamCounters:
    """How far a stream is."""

    requests: int
    """Predicted, this one included."""
    samples: int
    """Images learnt from or about to be, those of this request included."""
    updates: int
    """Steps of learning, from before this request."""
    frozen: bool
    alarms: int
    """Times that the guard stepped in, since the server started."""


class Counters:
    """Counts along with a pool; for the worker's thread alone.

    Args:
        pool: The pool.
        note: Is told whatever is learnt of a stream on the way.
    """

    def __init__(self, pool: StreamPool, note: Callable[[StreamInfo], None]) -> None:
        self._pool = pool
        self._note = note
        self._of: OrderedDict[str, StreamCounters] = OrderedDict()
        self._last_event: dict[str, int] = {}
        self._alarms: dict[str, int] = {}  # of streams that were changed, until they come again
        self._blind: set[str] = set()

    def expect(self, stream: str) -> None:
        """Look a stream up before the pool predicts for it, if it was not seen before.

        Raises:
            StoreError: Its state cannot be fetched now.
            ValueError: Its state cannot be used.
        """
        if stream in self._of:
            return
        start = StreamCounters(requests=0, samples=0, updates=0, frozen=False, alarms=0)
        if stream in self._pool:
            info = self._pool.info(stream)
            alarms = self._alarms.pop(stream, 0)
            start = StreamCounters(info.requests, info.samples, info.updates, info.frozen, alarms)
            self._new_alarms(info)  # were counted in another life
            self._note_blindness(info)
            self._note(info)
        self._of[stream] = start

    def predicted(self, stream: str, images: int) -> StreamCounters:
        """Count a request that the pool has predicted, for a stream that was expected."""
        before = self._of[stream]
        learnt = 0 if before.frozen or stream in self._blind else images
        now = replace(before, requests=before.requests + 1, samples=before.samples + learnt)
        self._of[stream] = now
        self._of.move_to_end(stream)
        while len(self._of) > _STREAMS:
            self.forget(next(iter(self._of)))
        return now

    def learnt(self, changed: list[str]) -> tuple[int, int]:
        """Take over what learning has changed; how many streams were updated, and how often guards
        stepped in meanwhile."""
        told = [self._learnt(stream) for stream in changed if stream in self._of]
        return sum(updated for updated, _ in told), sum(alarms for _, alarms in told)

    def _learnt(self, stream: str) -> tuple[bool, int]:
        info = self._pool.info(stream)
        self._note(info)
        self._note_blindness(info)
        alarms = self._new_alarms(info)
        before = self._of[stream]
        self._of[stream] = replace(
            before, samples=info.samples, updates=info.updates, alarms=before.alarms + alarms
        )
        return info.updates > before.updates, alarms

    def _note_blindness(self, info: StreamInfo) -> None:
        """Of what shows nothing, nothing is learnt."""
        if info.events and info.events[-1]["action"] == "leave out":
            self._blind.add(info.name)
        else:
            self._blind.discard(info.name)

    def changed(self, stream: str) -> int:
        """A stream was changed by other means: how often its guard stepped in meanwhile."""
        before, alarms = self._of.get(stream), 0
        if before is not None and stream in self._pool:
            with suppress(StoreError, ValueError):  # whoever asks for it next is told
                alarms = self._new_alarms(self._pool.info(stream))
        self.forget(stream)
        if before is not None and before.alarms + alarms:
            self._alarms[stream] = before.alarms + alarms
        return alarms

    def forget(self, stream: str) -> None:
        """Ask the pool when the stream comes again: it was changed by other means."""
        self._of.pop(stream, None)
        self._alarms.pop(stream, None)
        self._last_event.pop(stream, None)
        self._blind.discard(stream)

    def _new_alarms(self, info: StreamInfo) -> int:
        """Events later than those counted before; good news is no alarm."""
        last = self._last_event.get(info.name, -1)
        new = [event for event in info.events if event["batch"] > last]
        if new:
            self._last_event[info.name] = new[-1]["batch"]
        return sum(event["action"] not in GOOD_NEWS for event in new)
