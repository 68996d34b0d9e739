"""How a stream did over the last minutes, slot by slot, for a curve the size of a word."""

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import TypedDict

SECONDS = 5
"""Of a slot."""
SLOTS = 36
"""That are remembered: three minutes."""
_LATELY = 64  # predictions over which classes are counted


class Curves(TypedDict):
    """A value for each slot, the newest last; None where nothing happened."""

    entropy: list[float | None]
    classes: list[float | None]
    images_per_second: list[float | None]
    latency_ms: list[float | None]


@dataclass(slots=True)
class _Slot:
    number: int
    requests: int = 0
    images: int = 0
    entropy: float = 0.0
    """Sum over the images."""
    classes: float = 1.0
    latency: float = 0.0
    """Sum over the requests, in seconds."""

    @property
    def mean_entropy(self) -> float:
        return round(self.entropy / self.images, 4)

    @property
    def mean_latency_ms(self) -> float:
        return round(1000 * self.latency / self.requests, 2)


class Trend:
    """Sums over the requests of each slot; bounded.

    Example:
        >>> trend = Trend()
        >>> trend.add(7.0, classes=[0, 1], entropy=0.5, latency=0.004)
        >>> trend.curves(12.0)["entropy"][-3:], trend.classes, trend.rate(12.0)
        ([None, 0.5, None], 2.0, 0.286)
    """

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque(maxlen=SLOTS)
        self._lately: deque[int] = deque(maxlen=_LATELY)

    def add(self, now: float, classes: list[int], entropy: float, latency: float) -> None:
        """Take in one request.

        Args:
            now: In seconds.
            classes: As predicted.
            entropy: Mean of the predictions', in nats.
            latency: In seconds.
        """
        slot = self._slot(now)
        self._lately.extend(classes)
        slot.requests += 1
        slot.images += len(classes)
        slot.entropy += entropy * len(classes)
        slot.latency += latency
        slot.classes = effective(Counter(self._lately))

    @property
    def classes(self) -> float | None:
        """How many classes share the last 64 predictions, weighed by how often each occurs."""
        return round(self._slots[-1].classes, 3) if self._slots else None

    def rate(self, now: float) -> float:
        """Images per second, in the slot before this one and in this one so far."""
        number = _number(now)
        images = sum(slot.images for slot in self._slots if slot.number >= number - 1)
        return round(images / (now - (number - 1) * SECONDS), 3)

    def curves(self, now: float) -> Curves:
        """All of it; the rate is not known of a slot that is not over."""
        newest = _number(now)
        by_number = {slot.number: slot for slot in self._slots}
        first = min(by_number, default=newest)
        curves = Curves(entropy=[], classes=[], images_per_second=[], latency_ms=[])
        for number in range(newest - SLOTS + 1, newest + 1):
            slot = by_number.get(number)
            images = 0 if slot is None else slot.images
            is_over = first <= number < newest
            curves["images_per_second"].append(images / SECONDS if is_over else None)
            curves["entropy"].append(None if slot is None else slot.mean_entropy)
            curves["classes"].append(None if slot is None else round(slot.classes, 2))
            curves["latency_ms"].append(None if slot is None else slot.mean_latency_ms)
        return curves

    def _slot(self, now: float) -> _Slot:
        number = _number(now)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(_Slot(number))
        return self._slots[-1]


def effective(counts: Counter[int]) -> float:
    """exp(H) of how often each class occurs: C if all occur alike, 1 if there is one alone.

    Example:
        >>> round(effective(Counter({0: 5, 1: 5})), 6), effective(Counter({3: 9}))
        (2.0, 1.0)
    """
    total = counts.total()
    return math.exp(-sum(n / total * math.log(n / total) for n in counts.values()))


def _number(now: float) -> int:
    return int(now // SECONDS)
