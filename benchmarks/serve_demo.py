"""Streams to look at on the page of a server: python benchmarks/serve_demo.py

    rotta serve --method rotta:guard=true:lr=0.2 &
    python benchmarks/serve_demo.py --url http://127.0.0.1:8000

Sends handwritten digits for `--streams` cameras, each under a corruption of its own and at its own
pace, until Ctrl-C or for `--seconds`. The second camera is frozen after a while, and the third is
broken: it sends noise. At a rate of learning that is 200 times too high, as above, some streams go
wrong within some 230 requests, and the guard steps in. The server must serve the model `digits`.
"""

import argparse
import itertools
import os
import time
from collections.abc import Iterator

import torch
from torch import Tensor

import rotta
from rotta.client import Client
from rotta.streams import PAPER_ORDER

_PLACES = ("gate", "yard", "dock", "hall", "lift", "roof", "line", "shop")
_FROZEN, _BROKEN = 1, 2
_FROZEN_AFTER = 40  # requests
_IMAGES = 12  # in each


def images_of(number: int) -> Iterator[Tensor]:
    """What a camera sees, over and over, uint8, (B, 3, 32, 32) each time."""
    if number == _BROKEN:
        generator = torch.Generator().manual_seed(number)
        noise = (torch.rand(400, 3, 32, 32, generator=generator) * 255).byte()
        return itertools.cycle(torch.split(noise, _IMAGES))
    dataset = rotta.load_dataset("digits-c", limit=400)
    domain = PAPER_ORDER[number % len(PAPER_ORDER)]
    stream = rotta.Stream(dataset, order=[domain], batch_size=_IMAGES, seed=number)
    return itertools.cycle([(batch.x * 255).round().byte() for batch in stream])


def name_of(number: int) -> str:
    """Such as ``gate-0``."""
    return f"{_PLACES[number % len(_PLACES)]}-{number // len(_PLACES)}"


def feed(client: Client, count: int, until: float) -> None:
    """Send what all cameras see, each in its turn: the later ones less often."""
    print("making what the cameras see")
    cameras = {name_of(number): images_of(number) for number in range(count)}
    print("sending it: Ctrl-C to stop")
    sent = dict.fromkeys(cameras, 0)
    for turn in itertools.count():
        for number, (name, images) in enumerate(cameras.items()):
            if turn % (1 + number // 6) == 0 or number == _BROKEN:
                client.predict(name, next(images))
                sent[name] += 1
            if number == _FROZEN and sent[name] == _FROZEN_AFTER:
                client.freeze(name)
        if time.monotonic() > until:
            return
        time.sleep(0.05)


def main() -> None:
    """Feed until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--streams", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    client = Client(options.url, token=os.environ.get("ROTTA_TOKEN"), patience=10.0)
    try:
        feed(client, options.streams, time.monotonic() + options.seconds)
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    main()
