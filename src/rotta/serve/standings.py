"""How every stream stands that was used of late, known without asking the pool."""

import math
import statistics
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rotta.pool import StreamInfo
from rotta.serve.trend import Curves, Trend

STREAMS = 8192
"""That are remembered, the most recently used."""
_REQUESTS = 4096  # over which the traffic is taken
_WINDOW = 30.0  # seconds, for the same

State = Literal["broken", "alarm", "well"]
"""It predicts NaN; the guard has stepped in: it learns slowly, or not at all; neither."""


@dataclass(frozen=True)
class Standing:
    """A stream at one moment."""

    stream: str
    state: State
    action: str | None
    """What the guard did last, if anything."""
    rate: float
    """By which the guard multiplies its learning rate."""
    frozen: bool
    updates: int
    last_used: float
    """In seconds since 1970."""
    entropy: float | None
    """Mean over the last request, in nats; None before the first."""
    classes: float | None
    images_per_second: float
    latency_ms: float

    @property
    def in_trouble(self) -> bool:
        """Whether somebody should look."""
        return self.state != "well"


@dataclass(frozen=True)
class Traffic:
    """Requests of all streams, over the last 30 seconds."""

    requests_per_second: float
    latency_p50_ms: float | None
    latency_p99_ms: float | None


@dataclass
class _Stream:
    trend: Trend = field(default_factory=Trend)
    rate: float = 1.0
    action: str | None = None
    frozen: bool = False
    updates: int = 0
    last_used: float = 0.0
    entropy: float | None = None
    latency: float = 0.0

    def standing(self, name: str, now: float) -> Standing:
        broken = self.entropy is not None and not math.isfinite(self.entropy)
        alarmed = self.rate < 1 or self.action == "leave out"
        return Standing(
            stream=name,
            state="broken" if broken else "alarm" if alarmed else "well",
            action=self.action,
            rate=self.rate,
            frozen=self.frozen,
            updates=self.updates,
            last_used=self.last_used,
            entropy=self.entropy,
            classes=self.trend.classes,
            images_per_second=self.trend.rate(now),
            latency_ms=round(1000 * self.latency, 3),
        )


class Standings:
    """The streams used last; bounded, safe to use from threads.

    Example:
        >>> standings = Standings()
        >>> standings.add("a", classes=[0, 1], entropy=0.5, latency=0.004)
        >>> [(each.stream, each.state, each.classes) for each in standings.all()]
        [('a', 'well', 2.0)]
        >>> standings.traffic().latency_p50_ms
        4.0
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: OrderedDict[str, _Stream] = OrderedDict()
        self._requests: deque[tuple[float, float]] = deque(maxlen=_REQUESTS)
        self._since = time.time()

    def add(self, stream: str, classes: list[int], entropy: float, latency: float) -> None:
        """Take in one request: its classes, its mean entropy in nats, its latency in seconds."""
        now = time.time()
        with self._lock:
            known = self._of(stream)
            known.trend.add(now, classes, entropy, latency)
            known.last_used, known.entropy, known.latency = now, entropy, latency
            self._requests.append((now, latency))

    def note(self, info: StreamInfo) -> None:
        """Take in what the pool says of a stream."""
        with self._lock:
            known = self._of(info.name)
            known.frozen, known.updates, known.rate = info.frozen, info.updates, info.rate
            known.action = info.events[-1]["action"] if info.events else None
            known.last_used = max(known.last_used, info.last_used)
            known.entropy = info.entropy

    def forget(self, stream: str) -> None:
        """As if it had never been there."""
        with self._lock:
            self._streams.pop(stream, None)

    def all(self) -> list[Standing]:
        """All of them, those used last at the end."""
        now = time.time()
        with self._lock:
            return [stream.standing(name, now) for name, stream in self._streams.items()]

    def curves(self, streams: Sequence[str]) -> list[Curves]:
        """Of some streams that :meth:`all` has named."""
        now = time.time()
        with self._lock:
            return [self._streams.get(name, _Stream()).trend.curves(now) for name in streams]

    def traffic(self) -> Traffic:
        """Of all streams together."""
        now = time.time()
        with self._lock:
            lately = [each for each in self._requests if each[0] > now - _WINDOW]
            full = len(lately) == _REQUESTS
        since = lately[0][0] if full else max(self._since, now - _WINDOW)
        latencies = [1000 * latency for _, latency in lately] * 2  # quantiles want two at least
        cuts = statistics.quantiles(latencies, n=100, method="inclusive") if latencies else []
        return Traffic(
            requests_per_second=round(len(lately) / max(now - since, 1.0), 2),
            latency_p50_ms=round(cuts[49], 2) if cuts else None,
            latency_p99_ms=round(cuts[98], 2) if cuts else None,
        )

    def _of(self, stream: str) -> _Stream:
        known = self._streams.setdefault(stream, _Stream())
        self._streams.move_to_end(stream)
        while len(self._streams) > STREAMS:
            self._streams.popitem(last=False)
        return known
