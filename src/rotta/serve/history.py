"""What happened lately in each stream, in memory only, for whoever looks on."""

import threading
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from rotta.pool import StreamInfo
from rotta.serve.standings import Standings

MOMENTS = 240
"""Requests that are remembered of each stream."""
PICTURES = 16
"""Inputs that are remembered of each stream."""
STREAMS = 512
"""That are remembered, the most recently used."""
SIDE = 64
"""Longest side of a remembered input, in pixels."""


class Moment(TypedDict):
    """One request."""

    time: float
    """When it was answered, in seconds since 1970."""
    images: int
    entropy: float
    """Mean over its images, in nats."""
    classes: dict[int, int]
    """How often each class was predicted."""
    latency_ms: float
    """From decoded images to the answer."""


class Drift(TypedDict):
    """How far a stream had moved after an update."""

    time: float
    """In seconds since 1970."""
    statistics: float
    """From the source's; relative."""
    parameters: float
    """The same of γ and β."""
    rate: float
    """By which the guard multiplied its learning rate."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One input."""

    pixels: Tensor
    """uint8, (3, h, w)."""
    number: int
    """Of the class that was predicted."""
    confidence: float
    """Its probability."""


@dataclass
class _Remembered:
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOMENTS))
    pictures: deque[Seen] = field(default_factory=lambda: deque(maxlen=PICTURES))
    drift: deque[Drift] = field(default_factory=lambda: deque(maxlen=MOMENTS))


class History:
    """The last requests and inputs of the streams used last; bounded, safe to use from threads.

    Attributes:
        standings: How each stands now, of many more streams.

    Example:
        >>> history, images = History(), torch.zeros(2, 3, 8, 8)
        >>> history.add("a", images, [0, 1], confidences=[0.9, 0.8], entropy=0.5, latency=0.004)
        >>> history.moments("a")[0]["classes"], len(history.pictures("a")), history.moments("b")
        ({0: 1, 1: 1}, 2, [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: OrderedDict[str, _Remembered] = OrderedDict()
        self.standings = Standings()

    def add(
        self,
        stream: str,
        images: Tensor,
        classes: list[int],
        confidences: list[float],
        entropy: float,
        latency: float,
    ) -> None:
        """Remember one request.

        Args:
            stream: Whose it is.
            images: uint8, or in [0, 1]; on the CPU, (B, 3, H, W).
            classes: As predicted, B of them.
            confidences: Their probabilities.
            entropy: Mean of the predictions', in nats.
            latency: In seconds.
        """
        moment = Moment(
            time=time.time(),
            images=len(images),
            entropy=round(entropy, 5),
            classes=dict(Counter(classes)),
            latency_ms=round(1000 * latency, 3),
        )
        newest = slice(-PICTURES, None)
        small = thumbnails(images[newest])
        seen = zip(small, classes[newest], confidences[newest], strict=True)
        pictures = [Seen(*each) for each in seen]
        with self._lock:
            remembered = self._of(stream)
            remembered.moments.append(moment)
            remembered.pictures.extend(pictures)
        self.standings.add(stream, classes, entropy, latency)

    def note(self, info: StreamInfo) -> None:
        """Remember what the pool says of a stream, after it was updated or changed."""
        drift = Drift(
            time=time.time(),
            statistics=info.statistics_distance,
            parameters=info.parameter_distance,
            rate=info.rate,
        )
        with self._lock:
            self._of(info.name).drift.append(drift)
        self.standings.note(info)

    def moments(self, stream: str) -> list[Moment]:
        """The last requests, the newest last; none of a stream that was not used lately."""
        with self._lock:
            return list(self._streams.get(stream, _Remembered()).moments)

    def drift(self, stream: str) -> list[Drift]:
        """How it moved over the last updates, the newest last."""
        with self._lock:
            return list(self._streams.get(stream, _Remembered()).drift)

    def pictures(self, stream: str) -> list[Seen]:
        """The last inputs, the newest last."""
        with self._lock:
            return list(self._streams.get(stream, _Remembered()).pictures)

    def forget(self, stream: str) -> None:
        """As if it had never been there."""
        with self._lock:
            self._streams.pop(stream, None)
        self.standings.forget(stream)

    def _of(self, stream: str) -> _Remembered:
        remembered = self._streams.setdefault(stream, _Remembered())
        self._streams.move_to_end(stream)
        while len(self._streams) > STREAMS:
            self._streams.popitem(last=False)
        return remembered


def thumbnails(images: Tensor) -> Tensor:
    """uint8, (B, 3, h, w), no side longer than `SIDE`; a copy, which keeps nothing else alive."""
    scale = SIDE / max(images.shape[2:])
    if scale >= 1 and images.dtype == torch.uint8:
        return images.clone()
    pixels = images.float() if images.dtype == torch.uint8 else images * 255
    if scale < 1:
        pixels = interpolate(pixels, scale_factor=scale, mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8)
