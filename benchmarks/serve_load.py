"""How much a server takes: python benchmarks/serve_load.py

    python benchmarks/serve_load.py --streams 200 --connections 32 --json serve.json

Starts `rotta serve` in a process of its own, with a store on the disk. Each connection sends one
request after the other, going round its share of the streams; each request has `--images` images
of 8 bits as a raw tensor. After `--warm-up` seconds all answers of `--seconds` are counted. The
client shares the machine with the server, and takes its part of the processor.
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from rotta.client import Client, RefusedError
from rotta.results import provenance
from serve_process import server


class Load:
    """What the connections do and note."""

    def __init__(self, url: str, options: argparse.Namespace, side: int) -> None:
        self._url = url
        self._options = options
        pictures = np.random.default_rng(0).integers(0, 256, (64, 3, side, side), np.uint8)
        self._images = np.resize(pictures, (options.images, *pictures.shape[1:]))
        self._ends_at = 0.0
        self.answers: list[tuple[float, float]] = []
        """When each came, and how many seconds it took."""
        self.refused: list[int] = []

    def run(self) -> None:
        """Ask until the time is over."""
        self._ends_at = time.monotonic() + self._options.warm_up + self._options.seconds
        streams = [f"stream-{number}" for number in range(self._options.streams)]
        shares = [streams[n :: self._options.connections] for n in range(self._options.connections)]
        threads = [threading.Thread(target=self._ask, args=(share,)) for share in shares if share]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def counted(self) -> list[float]:
        """Seconds of each answer, in order, without the time of warming up."""
        begin = self._ends_at - self._options.seconds
        return sorted(took for at, took in self.answers if at >= begin)

    def _ask(self, share: list[str]) -> None:
        client = Client(self._url, patience=0)
        if self._options.frozen:
            for stream in share:
                client.predict(stream, self._images)
                client.freeze(stream)
        while time.monotonic() < self._ends_at:
            for stream in share:
                start = time.monotonic()
                try:
                    client.predict(stream, self._images)
                except RefusedError as error:
                    self.refused.append(error.status)
                else:
                    self.answers.append((time.monotonic(), time.monotonic() - start))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All figures, for JSON."""
    words = ["--model", options.model, "--device", options.device]
    words += ["--max-batch", str(options.max_batch), "--max-wait-ms", str(options.max_wait_ms)]
    with server(*words) as url:
        load = Load(url, options, side=32 if options.image_size is None else options.image_size)
        load.run()
    seconds = load.counted()
    if len(seconds) < 2:
        sys.exit("hardly any answer came: give --seconds more")
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {
        "settings": {key: value for key, value in vars(options).items() if key != "json"},
        "requests_per_second": round(len(seconds) / options.seconds, 1),
        "images_per_second": round(len(seconds) * options.images / options.seconds, 1),
        "latency_ms": {
            "p50": round(1000 * cuts[49], 2),
            "p99": round(1000 * cuts[98], 2),
            "worst": round(1000 * seconds[-1], 2),
        },
        "refused": len(load.refused),
        "load_average": os.getloadavg()[0],
        "provenance": provenance(options.device, {}),
    }


def main() -> None:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="digits")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--images", type=int, default=1, help="in each request")
    parser.add_argument("--frozen", action="store_true", help="streams that do not learn")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--max-batch", type=int, default=64)
    parser.add_argument("--max-wait-ms", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options)
    latency = figures["latency_ms"]
    print(
        f"{options.streams} streams over {options.connections} connections: "
        f"{figures['requests_per_second']:,} requests/s, p50 {latency['p50']} ms, "
        f"p99 {latency['p99']} ms, {figures['refused']} refused"
    )
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
