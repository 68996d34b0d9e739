"""Whether memory stays what it is on a long stream: python benchmarks/soak.py

    python benchmarks/soak.py --method rotta --batches 100000 --json soak.json

Leads a method with a guard along images that drift without end, a tiny network on 8×8 pixels in
batches of four, and saves it every 5,000 batches. Every 1,000 batches it notes the memory that the
process holds and how many objects and tensors Python knows. Several methods, with commas between,
walk one after the other, each in a process of its own.
"""

import argparse
import gc
import math
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor, nn

import rotta
from rotta.adapters.choice import MethodChoice, parse_methods
from rotta.cli.console import progress_bar
from rotta.results import as_json, provenance

BATCH, SIDE, CLASSES = 4, 8, 10
NOTE_EVERY, SAVE_EVERY = 1_000, 5_000
"""Batches."""
_FEW_PERCENT, _FEW_KIB = 0.01, 5 * 1024  # between two quarters: either is no growth
_WARM_UP = 0.2  # share of the walk in which allocators and caches settle


@dataclass(frozen=True)
class Soak:
    """What was noted on a walk, at the same batches each."""

    batches: list[int] = field(default_factory=list)
    rss_kib: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)

    def note(self, batches: int) -> None:
        """Count what is there now."""
        gc.collect()
        there = gc.get_objects()
        self.batches.append(batches)
        self.objects.append(len(there))
        # the type, not the instance: a lazy object may import something when it is asked
        self.tensors.append(sum(issubclass(type(thing), Tensor) for thing in there))
        del there
        self.rss_kib.append(resident_kib())

    @property
    def slope(self) -> float:
        """KiB that are added every 1,000 batches, over the last 80 %."""
        start = int(_WARM_UP * len(self.batches))
        if len(self.batches) - start < 2:
            return math.nan
        slope, _ = statistics.linear_regression(self.batches[start:], self.rss_kib[start:])
        return 1000 * slope

    @property
    def growth_kib(self) -> float:
        """From the mean over the second quarter to the mean over the last one."""
        second, last = self._quarters()
        return last - second

    @property
    def flat(self) -> bool:
        """Whether that is little: 1 % or 5 MiB."""
        second, _ = self._quarters()
        return self.growth_kib <= max(_FEW_PERCENT * second, _FEW_KIB)

    def _quarters(self) -> tuple[float, float]:
        quarter = max(1, len(self.rss_kib) // 4)
        second, last = self.rss_kib[quarter : 2 * quarter], self.rss_kib[-quarter:]
        return statistics.fmean(second or last), statistics.fmean(last)


def main() -> None:
    """Walk, print what grew, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--method", default="rotta", help="as `rotta run --methods` takes them")
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    choices = [guarded(choice) for choice in parse_methods(arguments.method)]

    soaks = {}
    for choice in choices:
        soaks[choice.label] = soak = in_its_own_process(choice, arguments.batches)
        print(
            f"{choice.label}: {soak.rss_kib[-1] / 1024:.1f} MiB, {soak.slope:+.1f} KiB per 1,000 "
            f"batches, {'flat' if soak.flat else 'GROWS'}; {soak.objects[-1]:,} objects, "
            f"{soak.tensors[-1]:,} tensors",
            flush=True,
        )
        if arguments.json:  # after each: it takes a quarter of an hour
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(_as_result(soaks))


def soak(choice: MethodChoice, batches: int, note_every: int = NOTE_EVERY) -> Soak:
    """Lead a method along a drifting stream and note what memory it takes.

    Args:
        choice: The method.
        batches: How many.
        note_every: Batches between two notes.
    """
    noted = Soak()
    model = choice.build(_network(), CLASSES)
    with tempfile.TemporaryDirectory() as folder, progress_bar(choice.label) as progress:
        for done, x in enumerate(drifting(batches), start=1):
            model(x)
            if done % SAVE_EVERY == 0:
                rotta.save(model, Path(folder) / "model.safetensors")
            if done % note_every == 0:
                noted.note(done)
                progress(done, batches)
    return noted


def drifting(batches: int, seed: int = 0) -> Iterator[Tensor]:
    """Images of ten patterns under noise, (4, 3, 8, 8); light, contrast and noise come and go.

    Args:
        batches: How many to yield.
        seed: Of all draws.
    """
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(CLASSES, 3, SIDE, SIDE, generator=generator)
    for number in range(batches):
        drawn = torch.randint(CLASSES, (BATCH,), generator=generator)
        light, contrast, noise = (
            0.5 + 0.5 * math.sin(2 * math.pi * number / period) for period in (1_700, 2_900, 4_300)
        )
        x = patterns[drawn] * (0.2 + 0.8 * contrast) + 0.4 * (light - 0.5)
        x += 0.3 * noise * torch.randn(x.shape, generator=generator)
        yield x.clamp(0, 1)


def resident_kib() -> int:
    """What the process holds of the machine's memory; Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def guarded(choice: MethodChoice) -> MethodChoice:
    """With a guard, unless something else is asked for."""
    return replace(choice, options={"guard": True, **choice.options})


def in_its_own_process(choice: MethodChoice, batches: int) -> Soak:
    """So that no method has the memory of another to use up."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(soak, choice, batches).result()


def _network() -> nn.Module:
    """As little arithmetic as all methods can adapt, in the layout of `rotta run`."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, CLASSES)).eval()
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _as_result(soaks: dict[str, Soak]) -> str:
    methods = {
        label: {
            "slope_kib_per_1000_batches": round(soak.slope, 2),
            "growth_kib": round(soak.growth_kib, 1),
            "flat": soak.flat,
            **asdict(soak),
        }
        for label, soak in soaks.items()
    }
    settled = {"batch_size": BATCH, "side": SIDE, "saved_every": SAVE_EVERY}
    origin = provenance("cpu", {"images": "synthetic"})
    return as_json({"methods": methods, "config": settled, "provenance": origin})


if __name__ == "__main__":
    main()
