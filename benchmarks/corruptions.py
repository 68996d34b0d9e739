"""How long the fifteen corruptions take: python benchmarks/corruptions.py --device cpu

Times each corruption over the same images, on one device, warmed up; the images are there already.
The original generator needs 345 s for 10,000 CIFAR images at one severity on two cores.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from rotta.corruptions import CORRUPTIONS, corrupt, load_textures
from rotta.results import provenance

ORIGINAL_SECONDS = 345.0
"""The original generator: 15 corruptions × 10,000 images of 32×32, severity 5, two cores."""


def main() -> None:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--severity", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    x = _images(arguments.images, arguments.side).to(arguments.device)
    seconds: dict[str, list[float]] = {name: [] for name in CORRUPTIONS}
    for name in CORRUPTIONS:
        _timed(x[:64], name, arguments.severity)
    for _ in range(arguments.repeats):  # interleaved, so that a slow minute hits all alike
        for name, times in seconds.items():
            times.append(_timed(x, name, arguments.severity))
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:20} {median:8.3f} s   {1e6 * median / len(x):8.1f} µs per image")
    total = sum(medians.values())
    print(f"{'all fifteen':20} {total:8.3f} s   {len(x):,} images of {arguments.side} pixels")
    if arguments.json:
        result = {
            "images": len(x),
            "side": arguments.side,
            "severity": arguments.severity,
            "seconds": medians,
            "total_seconds": total,
            "original_generator_seconds": ORIGINAL_SECONDS,
            "frost": load_textures().origin,
            "provenance": provenance(arguments.device, {"images": "synthetic"}),
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


def _timed(x: Tensor, name: str, severity: int) -> float:
    index = torch.arange(len(x), device=x.device)
    _wait(x.device)
    start = time.perf_counter()
    corrupt(x, name, severity, seed=0, index=index)
    _wait(x.device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _images(count: int, side: int) -> Tensor:
    """Smooth random pictures: no corruption's cost depends on what they show."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")


if __name__ == "__main__":
    main()
