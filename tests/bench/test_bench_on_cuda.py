"""Measuring on a GPU, where there is one."""

import pytest
import torch

from rotta.bench.benchmark import Settings, benchmark
from rotta.bench.cell import Cell, measure
from rotta.bench.subjects import default_methods, make_subjects
from rotta.bench.timing import Budget, timer_for
from rotta.bench.workload import make_workload

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_rotta_is_measured_with_its_fastest_options_too() -> None:
    result = benchmark(Settings(model="wrn-10-1", device="cuda", quick=True))
    updating = {m.subject for m in result.measurements if m.what == "predict+update"}
    assert {"floor", "rotta", "plain", "rotta:precision=float16"} <= updating
    assert result.summary.rotta_over_floor is not None


def test_what_others_hold_does_not_count() -> None:
    load = make_workload("wrn-10-1", "cuda")
    subjects = make_subjects(load, default_methods(load.device, quick=True))
    floor = [subject for subject in subjects if subject.name == "floor"]
    others = [subject for subject in subjects if subject.role in ("rotta", "other")]
    peaks = []
    for everybody in (floor, others + floor):
        cell = Cell("predict+update", 64, everybody, Budget(seconds=0))
        *_, last = measure(cell, load, timer_for(load.device))
        assert last.subject == "floor"
        peaks.append(last.peak_memory_mib)
    assert peaks[1] == pytest.approx(peaks[0], rel=0.05)
