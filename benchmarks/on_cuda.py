"""All that has to be run on a GPU, in one go: python benchmarks/on_cuda.py --out DIR

How fast RoTTA is beside the bare passes, on two networks; what a guard costs; the tests for CUDA.
What is done is written at once, and a step that fails does not stop the others. A guard is measured
on CIFAR with source models under $ROTTA_HOME; the tests need pytest, and nothing needs what the
command line is made of.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from guard import main as measure_guard  # beside this file
from rotta.adapters.choice import parse_methods
from rotta.bench.benchmark import Benchmark, Settings, benchmark

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
CUDA_TESTS = ("nn", "memory", "adapters", "pool", "bench", "test_saving.py")
METHODS = "rotta,rotta:graphs=false,rotta:precision=float16"
SECONDS = 0.7  # for each of them


class Network(NamedTuple):
    """What is measured, and on what."""

    classes: int
    fastest_ms: float
    dataset: str
    source: str


NETWORKS = {
    "wrn-28-10": Network(10, 9.0, "cifar10-c", "cifar10-wrn28-10"),
    "resnext-29": Network(100, 12.0, "cifar100-c", "cifar100-resnext29-augmix"),
}


@dataclass(frozen=True)
class Figure:
    """What came out, and what should."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """Whether it is within the limit."""
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "MISSED"
        return f"{self.name:<58} {self.value:>8.3f} ≤ {self.limit:<6g} {self.unit:<4} {verdict}"


def main() -> None:
    """Run the steps, then print all figures."""
    steps: dict[str, Callable[[Path, str], Sequence[Figure]]] = {
        "speed": speed,
        "guard": guard,
        "tests": tests,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for JSON and logs")
    parser.add_argument("--steps", default=",".join(steps), help="some of them, in their order")
    parser.add_argument("--device", default="cuda", help="cpu tries the script itself, slowly")
    arguments = parser.parse_args()
    chosen = arguments.steps.split(",")
    if unknown := set(chosen) - set(steps):
        parser.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(steps)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device here")
    arguments.out.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    failed = False
    for name in chosen:
        start = time.monotonic()
        try:
            found = steps[name](arguments.out, arguments.device)
            print("\n".join(map(str, found)), flush=True)
            figures += found
        except (Exception, SystemExit) as error:  # what the other steps find is not to be lost
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            failed = True
        print(f"{name} took {time.monotonic() - start:.0f} s", flush=True)
    print("all together:", *figures, sep="\n")
    sys.exit(failed or not all(figure.is_met for figure in figures))


def speed(out: Path, device: str) -> list[Figure]:
    """RoTTA on two networks, at batch 64."""
    figures = []
    for model, network in NETWORKS.items():
        result = benchmark(
            Settings(
                model=model,
                device=device,
                methods=parse_methods(METHODS if device == "cuda" else "rotta"),
                batch_sizes=[64],
                num_classes=network.classes,
                seconds=SECONDS,
            )
        )
        result.save(out / f"bench-{model}.json")
        figures += _of_speed(model, result, network.fastest_ms)
    return figures


def _of_speed(model: str, result: Benchmark, fastest_ms: float) -> list[Figure]:
    updates = [m for m in result.measurements if m.what == "predict+update"]
    fastest = min(m.median_ms for m in updates if m.subject.startswith("rotta"))
    summary, (few, *_, many) = result.summary, result.insert_ms.values()
    assert summary.rotta_over_floor is not None
    assert summary.rotta_over_floor_memory is not None
    floor = f"{summary.medians_ms['floor']:.2f} ms"
    return [
        Figure(f"{model}: fastest", fastest, fastest_ms, "ms"),
        Figure(f"{model}: RoTTA over the floor, {floor}", summary.rotta_over_floor, 1.15),
        Figure(f"{model}: memory over the floor's", summary.rotta_over_floor_memory, 1.2),
        Figure(f"{model}: 64 into a full bank of 64", few, 1.0, "ms"),
        Figure(f"{model}: the same, many classes over few", many / few, 2.0),
    ]


def guard(out: Path, device: str) -> list[Figure]:
    """What it costs where there is nothing to guard from."""
    figures = []
    for model, network in NETWORKS.items():
        path = out / f"guard-{model}.json"
        options = ["--setting=continual", f"--dataset={network.dataset}"]
        options += [
            f"--source={network.source}",
            "--methods=rotta",
            f"--device={device}",
            f"--json={path}",
        ]
        options += ["--limit=2000", "--pairs=4"] if device == "cuda" else ["--limit=64"]
        measure_guard(options)
        found = json.loads(path.read_text())["found"]["rotta"]
        if found["time"] is not None:
            figures.append(Figure(f"{model}: time with a guard", found["time"], 1.03))
        more = found["error"]["guarded"] - found["error"]["without"]
        figures.append(Figure(f"{model}: error with a guard", more, 0.3, "%"))
    return figures


def tests(out: Path, _: str) -> list[Figure]:
    """Those that need a GPU, and their neighbours."""
    files = [str(TESTS / name) for name in CUDA_TESTS]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files]
    with (out / "tests.log").open("w") as log:
        ended = subprocess.run(command, cwd=HERE.parent, stdout=log, stderr=subprocess.STDOUT)
    last = (out / "tests.log").read_text().splitlines()[-1:]
    return [Figure(f"tests: {last[0] if last else 'nothing'}", float(ended.returncode != 0), 0.0)]


if __name__ == "__main__":
    main()
