"""What others notice of a flood on one stream: python benchmarks/serve_flood.py

    python benchmarks/serve_flood.py --json flood.json

Starts `rotta serve` in a process of its own. `--calm` cameras send a digit each, every `--every`
seconds, half of them as PNG files and half as tensors; all of them learn, with full banks.
Their latency is taken alone and, in turns with that, during three floods on one more stream, over
`--connections` connections that send again as soon as they are answered, whatever the answer:

tensors   64 digits of 32x32 in each request
pictures  8 PNG files of 1280x960 in each
single    one digit in each

Cameras and flood are processes of their own. All share the machine; the flood has a lower priority
(nice 10), because what it computes would be computed elsewhere.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from rotta import load_dataset
from rotta.client.bodies import Images, encoded
from rotta.results import provenance
from serve_process import server

_ALONE = "alone"
_BANK = 64  # images that fill it
_PAUSE = 3.0  # seconds between phases, in which what waits is done
_NICE = 10


@dataclass(frozen=True)
class Post:
    """A request, ready to be sent."""

    query: str
    kind: str
    body: bytes

    @classmethod
    def of(cls, images: Images) -> "Post":
        """Of images, as :class:`rotta.client.Client` sends them."""
        query, kind, body = encoded(images)
        return cls(urlencode(query), kind, body)

    def send(self, line: HTTPConnection, stream: str) -> int:
        """Send it and read the answer; the status."""
        address = f"/v1/streams/{stream}/predict?{self.query}"
        line.request("POST", address, self.body, {"Content-Type": self.kind})
        answer = line.getresponse()
        answer.read()
        return answer.status


def floods(digits: Tensor) -> dict[str, Post]:
    """One request of each."""
    large = [_picture(digit).resize((1280, 960)) for digit in digits[:8]]
    return {
        "tensors": Post.of(digits[:64]),
        "pictures": Post.of(large),
        "single": Post.of(digits[:1]),
    }


def cameras(digits: Tensor, count: int) -> dict[str, list[Post]]:
    """What each sends, over and over."""
    return {
        f"camera-{number}": [
            Post.of(digit[None] if number % 2 else [_picture(digit)])
            for digit in digits[number::count]
        ]
        for number in range(count)
    }


def fill_banks(host: str, streams: list[str], digits: Tensor) -> None:
    """Let streams learn a bank full of images, and some more, so that updates are spread."""
    line = HTTPConnection(host)
    for number, stream in enumerate(streams):
        for count in (_BANK, 1 + _BANK * number // len(streams)):
            Post.of(digits[:count]).send(line, stream)


def ask_calmly(
    host: str, posts: dict[str, list[Post]], every: float, seconds: float
) -> list[float]:
    """The latency of every request, in milliseconds."""
    took: list[float] = []
    statuses: list[int] = []
    begin = time.monotonic()

    def ask(number: int, stream: str) -> None:
        line, at = HTTPConnection(host), begin + every * number / len(posts)
        for turn in range(int(seconds / every)):
            time.sleep(max(0.0, at - time.monotonic()))
            start = time.monotonic()
            statuses.append(posts[stream][turn % len(posts[stream])].send(line, stream))
            took.append(1000 * (time.monotonic() - start))
            at = max(at + every, time.monotonic())

    _at_once([partial(ask, number, stream) for number, stream in enumerate(posts)])
    assert set(statuses) == {200}, f"cameras were answered {Counter(statuses)}"
    return took


def flood(host: str, post: Post, connections: int, seconds: float) -> dict[int, int]:
    """Send as much as is possible; how often each status was answered."""
    statuses: Counter[int] = Counter()
    until = time.monotonic() + seconds

    def ask() -> None:
        line = HTTPConnection(host)
        while time.monotonic() < until:
            statuses[post.send(line, "flooded")] += 1

    _at_once([ask] * connections)
    return dict(statuses)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, for JSON."""
    digits = load_dataset("digits").domain("clean").images(np.arange(256))
    posts, kinds = cameras(digits, options.calm), floods(digits)
    rounds = []
    with server() as url, _process(0) as calm, _process(_NICE) as flooding:
        host = url.removeprefix("http://")
        calm.submit(fill_banks, host, [*posts, "flooded"], digits).result()
        flooding.submit(os.getpid).result()  # is there, and has imported all
        for _ in range(options.rounds):
            figures: dict[str, Any] = {"load_average": os.getloadavg()[0]}
            for kind in (_ALONE, *kinds):
                asking = calm.submit(ask_calmly, host, posts, options.every, options.seconds)
                answered = {}
                if kind != _ALONE:
                    given = host, kinds[kind], options.connections, options.seconds
                    answered = flooding.submit(flood, *given).result()
                figures[kind] = _quantiles(asking.result()) | {"flood_answered": answered}
                print(kind, figures[kind], flush=True)
                time.sleep(_PAUSE)
            rounds.append(figures)
    return {
        "settings": {key: value for key, value in vars(options).items() if key != "json"},
        "medians_of_rounds": {kind: _medians(rounds, kind) for kind in (_ALONE, *kinds)},
        "rounds": rounds,
        "provenance": provenance("cpu", {}),
    }


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calm", type=int, default=8)
    parser.add_argument("--every", type=float, default=0.2)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=26.0, help="of each phase")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options)
    for kind, latency in figures["medians_of_rounds"].items():
        print(f"{kind:8}  p50 {latency['p50_ms']:6.1f} ms  p99 {latency['p99_ms']:6.1f} ms")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


def _quantiles(took: list[float]) -> dict[str, Any]:
    cuts = statistics.quantiles(took, n=100, method="inclusive")
    numbers = {"p50_ms": cuts[49], "p99_ms": cuts[98], "worst_ms": max(took)}
    return {name: round(number, 1) for name, number in numbers.items()}


def _medians(rounds: list[dict[str, Any]], kind: str) -> dict[str, float]:
    return {
        name: statistics.median(each[kind][name] for each in rounds)
        for name in ("p50_ms", "p99_ms", "worst_ms")
    }


def _picture(digit: Tensor) -> Image.Image:
    return Image.fromarray(digit.permute(1, 2, 0).numpy())


def _process(nice: int) -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, spawn, initializer=os.nice, initargs=(nice,))


def _at_once(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
