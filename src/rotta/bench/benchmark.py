"""The whole benchmark, and the record of it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rotta.adapters.choice import MethodChoice
from rotta.atomic import replacing
from rotta.bench.cell import Cell, Measurement, measure
from rotta.bench.insertion import insertion_ms
from rotta.bench.memory import MEANING
from rotta.bench.plain import FILE
from rotta.bench.plan import BATCH_SIZES, full_plan, quick_plan
from rotta.bench.subjects import DEAR, Subject, default_methods, make_subjects
from rotta.bench.summary import Summary, over_floor, summarise
from rotta.bench.timing import Budget, timer_for
from rotta.bench.workload import BANK, Workload, make_workload
from rotta.progress import Progress
from rotta.results import provenance

SCHEMA = 1
SECONDS = 5.0

_INSERTIONS = Budget(seconds=0.5, least=20)


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    model: str = "wrn-40-2"
    """A name of `ARCHITECTURES` or `SOURCES`."""
    device: str = "cpu"
    methods: Sequence[MethodChoice] | None = None
    """The usual ones if left out."""
    batch_sizes: Sequence[int] = BATCH_SIZES
    image_size: int | None = None
    num_classes: int | None = None
    seconds: float = SECONDS
    """For each subject at each batch size, predicting and updating."""
    quick: bool = False
    """Batch sizes and times that fit into 45 seconds on two cores, instead of those above."""

    def chosen(self) -> Sequence[MethodChoice]:
        """The methods, or the usual ones."""
        return self.methods or default_methods(torch.device(self.device), self.quick)


@dataclass(frozen=True)
class Benchmark:
    """What came out."""

    measurements: Sequence[Measurement]
    summary: Summary
    insert_ms: dict[str, float]
    """64 samples into a full bank of 64, by number of classes."""
    left_out: Sequence[str]
    """What was not measured, and why, a sentence each."""
    config: dict[str, Any]
    provenance: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write as JSON, completely or not at all."""
        rows = [
            {**asdict(m), "over_floor": over_floor(m, self.measurements)} for m in self.measurements
        ]
        record = {
            "schema": SCHEMA,
            **asdict(self.summary),
            "insert_ms": self.insert_ms,
            "measurements": rows,
            "left_out": list(self.left_out),
            "config": self.config,
            "provenance": self.provenance,
        }
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def benchmark(settings: Settings, progress: Progress | None = None) -> Benchmark:
    """Measure, in one process and on equal inputs.

    Args:
        settings: What.
        progress: Is told how many measurements are made, and of how many.

    Raises:
        ValueError: Something in the settings is unknown, or does not fit the network.
    """
    device = torch.device(settings.device)
    methods = settings.chosen()
    load = make_workload(
        settings.model,
        device,
        largest_batch=BANK if settings.quick else max(settings.batch_sizes),
        num_classes=settings.num_classes,
        image_size=settings.image_size,
    )
    subjects = make_subjects(load, methods)
    plan = (
        quick_plan(subjects)
        if settings.quick
        else full_plan(subjects, settings.batch_sizes, settings.seconds)
    )
    measurements, insert_ms = _measure_all(plan, load, progress)
    return Benchmark(
        measurements=measurements,
        summary=summarise(measurements, _rotta(subjects)),
        insert_ms=insert_ms,
        left_out=_left_out(settings, subjects),
        config=_config(settings, methods, load, plan),
        provenance=provenance(device, {"images": "synthetic"}),
    )


def _measure_all(
    plan: Sequence[Cell], load: Workload, progress: Progress | None
) -> tuple[list[Measurement], dict[str, float]]:
    total = sum(len(cell.subjects) for cell in plan)
    done = 0

    def finished(_: str) -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    if progress:
        progress(0, total)
    timer = timer_for(load.device)
    insert_ms = insertion_ms(load, timer, _INSERTIONS)
    return [m for cell in plan for m in measure(cell, load, timer, finished)], insert_ms


def _config(
    settings: Settings, methods: Sequence[MethodChoice], load: Workload, plan: Sequence[Cell]
) -> dict[str, Any]:
    return {
        "model": settings.model,
        "classes": load.num_classes,
        "image_size": load.images.shape[-1],
        "batch_sizes": sorted({cell.batch for cell in plan}),
        "quick": settings.quick,
        "options": {choice.label: choice.settings for choice in methods},
        "precision": "float32 unless a method's options say otherwise; TF32: see provenance",
        "memory_format": "channels_last",
        "bank": "filled before measuring with samples of all classes in turn",
        "peak_memory_mib": MEANING[load.device.type],
    }


def _rotta(subjects: Sequence[Subject]) -> str:
    """Of several ways the usual one, else the first."""
    ways = [subject.name for subject in subjects if subject.role == "rotta"]
    return "rotta" if "rotta" in ways or not ways else ways[0]


def _left_out(settings: Settings, subjects: Sequence[Subject]) -> list[str]:
    roles = {subject.role for subject in subjects}
    reasons = []
    if "rotta" in roles and "plain" not in roles:
        reasons.append(
            f"plain: {FILE.name} comes with the repository and not with the package: run this in "
            "a checkout"
        )
    if settings.quick:
        if settings.methods is None:
            reasons.append(f"{DEAR}: too slow for --quick, name it with --methods")
        reasons.append(
            "other batch sizes, and what the other methods take to predict alone: run without "
            "--quick"
        )
    return reasons
