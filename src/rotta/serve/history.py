"""What happened lately in each stream, in memory only, for whoever looks on."""

import threading
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn.functional import interpolate

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
    """From the complete request to the answer."""


@dataclass
class _Remembered:
    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOMENTS))
    pictures: deque[tuple[Tensor, int]] = field(default_factory=lambda: deque(maxlen=PICTURES))


class History:
    """The last requests and inputs of the streams used last; bounded, safe to use from threads.

    Example:
        >>> history = History()
        >>> history.add("a", torch.zeros(2, 3, 8, 8), classes=[0, 1], entropy=0.5, latency=0.004)
        >>> history.moments("a")[0]["classes"], len(history.pictures("a")), history.moments("b")
        ({0: 1, 1: 1}, 2, [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: OrderedDict[str, _Remembered] = OrderedDict()

    def add(
        self, stream: str, images: Tensor, classes: list[int], entropy: float, latency: float
    ) -> None:
        """Remember one request.

        Args:
            stream: Whose it is.
            images: uint8, or in [0, 1]; on the CPU, (B, 3, H, W).
            classes: As predicted, B of them.
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
        pictures = list(zip(_thumbnails(images[newest]), classes[newest], strict=True))
        with self._lock:
            remembered = self._streams.setdefault(stream, _Remembered())
            self._streams.move_to_end(stream)
            remembered.moments.append(moment)
            remembered.pictures.extend(pictures)
            while len(self._streams) > STREAMS:
                self._streams.popitem(last=False)

    def moments(self, stream: str) -> list[Moment]:
        """The last requests, the newest last; none of a stream that was not used lately."""
        with self._lock:
            return list(self._streams.get(stream, _Remembered()).moments)

    def pictures(self, stream: str) -> list[tuple[Tensor, int]]:
        """The last inputs, uint8 (3, h, w), each with its predicted class, the newest last."""
        with self._lock:
            return list(self._streams.get(stream, _Remembered()).pictures)

    def forget(self, stream: str) -> None:
        """As if it had never been there."""
        with self._lock:
            self._streams.pop(stream, None)


def _thumbnails(images: Tensor) -> Tensor:
    """uint8, (B, 3, h, w), no side longer than `SIDE`; a copy, which keeps nothing else alive."""
    scale = SIDE / max(images.shape[2:])
    if scale >= 1 and images.dtype == torch.uint8:
        return images.clone()
    pixels = images.float() if images.dtype == torch.uint8 else images * 255
    if scale < 1:
        pixels = interpolate(pixels, scale_factor=scale, mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8)
