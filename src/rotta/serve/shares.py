"""How much of the server's time each stream takes, and who rests so that others are served."""

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TIMES_THE_OTHERS = 2.0  # what they take on average; beyond, a stream takes much
_REST = 2.0  # seconds for each second of work
_SHORT = 0.02  # seconds; shorter work holds up others less, and is rested from less
_LONGEST_REST = 2.0  # seconds; now and then work takes long for no fault of a stream's
_HALF_LIFE = 2.0  # seconds after which work counts half
_ABOUT = 2.0  # seconds for which a stream counts as being about: others rest for its sake
_REMEMBERED = 10.0  # seconds for which it is one of those who the average is of


@dataclass(slots=True)
class _Account:
    work: float = 0.0
    """Seconds, as they count at `at`."""
    at: float = 0.0
    rests_until: float = 0.0

    def counts(self, now: float) -> float:
        return self.work * math.exp2((self.at - now) / _HALF_LIFE)

    def add(self, seconds: float, now: float) -> None:
        self.work, self.at = self.counts(now) + seconds, now


class Shares:
    """The work that was done for each stream of late; safe to use from threads.

    A stream that takes much more than the others rests after each piece of work, in proportion, as
    long as they are about. So most of their requests find nobody before them, however much it asks
    for. After short pieces, which others hardly notice, it rests less: a fast camera is no flood.
    Streams that take about the same do not rest, nor does one that is alone.

    Args:
        clock: Tells seconds.

    Example:
        >>> shares = Shares(clock=lambda: 0.0)
        >>> shares.charge({"flood": 64}, seconds=0.1)
        >>> shares.rest("flood")
        0.0
        >>> shares.charge({"calm": 1}, seconds=0.01)
        >>> round(shares.rest("flood"), 3), shares.rest("calm")
        (0.2, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: OrderedDict[str, _Account] = OrderedDict()  # who was worked for last at the end
        self._all = _Account()

    def charge(self, parts: Mapping[str, float], seconds: float) -> None:
        """Note work that is done.

        Args:
            parts: How much of it was for each stream, in whatever unit.
            seconds: That it took.
        """
        total = sum(parts.values())
        now = self._clock()
        with self._lock:
            for stream, part in parts.items():
                self._charge(stream, seconds * part / total, now)
            self._forget(now)

    def rest(self, stream: str) -> float:
        """Seconds before more should be done for a stream."""
        now = self._clock()
        with self._lock:
            own = self._of.get(stream)
            if own is None or own.rests_until <= now or not self._takes_much(own, now):
                return 0.0
            return max(0.0, min(own.rests_until, self._others_worked_for(own) + _ABOUT) - now)

    async def rested(self, stream: str) -> None:
        """Wait until more may be done for a stream."""
        while rest := self.rest(stream):
            await asyncio.sleep(rest)

    def _takes_much(self, own: _Account, now: float) -> bool:
        others, work = len(self._of) - 1, own.counts(now)
        theirs = self._all.counts(now) - work
        return others > 0 and work > _TIMES_THE_OTHERS * theirs / others

    def _others_worked_for(self, own: _Account) -> float:
        """When that was last; there are others."""
        return next(each.at for each in reversed(self._of.values()) if each is not own)

    def _charge(self, stream: str, seconds: float, now: float) -> None:
        own = self._of.setdefault(stream, _Account())
        self._of.move_to_end(stream)
        for account in (own, self._all):
            account.add(seconds, now)
        until = max(own.rests_until, now) + _REST * seconds * min(1.0, seconds / _SHORT)
        own.rests_until = min(until, now + _LONGEST_REST)

    def _forget(self, now: float) -> None:
        while self._of and next(iter(self._of.values())).at < now - _REMEMBERED:
            _, gone = self._of.popitem(last=False)
            self._all.add(-gone.counts(now), now)
