"""The record: everybody is in it, and its ratios are those of its medians."""

import json
from pathlib import Path
from typing import Any

import pytest

from rotta.adapters import PAPER_METHODS
from rotta.adapters.choice import parse_methods
from rotta.bench.benchmark import Settings, benchmark

TINY: dict[str, Any] = {"model": "wrn-10-1", "image_size": 8}


def recorded(folder: Path, **settings: Any) -> dict[str, Any]:
    path = folder / "new" / "speed.json"
    benchmark(Settings(**TINY | settings)).save(path)
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def median(record: dict[str, Any], *wanted: object) -> float:
    found = [
        m["median_ms"]
        for m in record["measurements"]
        if (m["subject"], m["what"], m["batch"]) == wanted
    ]
    assert len(found) == 1
    return float(found[0])


def test_everybody_is_measured_at_every_size(tmp_path: Path) -> None:
    methods = parse_methods(",".join(name for name in PAPER_METHODS if name != "cotta"))
    methods += parse_methods("cotta:passes=2")
    record = recorded(tmp_path, batch_sizes=(32, 64), seconds=0.0, methods=methods)
    assert record["schema"] == 1
    measured = {(m["subject"], m["what"], m["batch"]) for m in record["measurements"]}
    names = {"floor", "plain", "cotta:passes=2", *PAPER_METHODS} - {"cotta"}
    assert measured == {
        (name, what, batch)
        for batch in (32, 64)
        for what, all_names in (("predict", names | {"bare"}), ("predict+update", names))
        for name in all_names
    }
    for m in record["measurements"]:
        assert m["rounds"] == 3
        assert 0 < m["median_ms"] <= m["p95_ms"]
        assert m["peak_memory_mib"] > 0
        assert m["over_floor"] == m["median_ms"] / median(record, "floor", m["what"], m["batch"])
        own_rhythm = m["what"] == "predict+update" and m["subject"] in {
            "floor",
            "rotta",
            "plain",
            "note",
        }
        assert m["calls_per_round"] == (2 if own_rhythm and m["batch"] == 32 else 1)
    assert record["left_out"] == []
    assert record["predict_over_bare_at_1"] is None
    assert record["config"]["batch_sizes"] == [32, 64]
    assert record["config"]["options"]["rotta"]["nu"] == 0.001


def test_ratios_are_quotients_of_the_medians(tmp_path: Path) -> None:
    record = recorded(tmp_path, quick=True, methods=parse_methods("rotta,bn"))
    medians = record["medians_ms"]
    assert medians == {
        name: median(record, name, "predict+update", 64) for name in ("floor", "rotta", "plain")
    }
    assert record["rotta_over_floor"] == medians["rotta"] / medians["floor"]
    assert record["plain_over_rotta"] == medians["plain"] / medians["rotta"]
    one = [median(record, name, "predict", 1) for name in ("rotta", "bare")]
    assert record["predict_over_bare_at_1"] == one[0] / one[1]
    memory = {
        m["subject"]: m["peak_memory_mib"]
        for m in record["measurements"]
        if m["what"] == "predict+update"
    }
    assert record["rotta_over_floor_memory"] == memory["rotta"] / memory["floor"]
    assert memory["bn"] < memory["floor"] < memory["plain"]
    assert set(record["insert_ms"]) == {"10", "1000"}
    assert all(ms > 0 for ms in record["insert_ms"].values())
    assert record["config"]["quick"]
    assert any("batch sizes" in reason for reason in record["left_out"])
    assert record["provenance"]["versions"]["torch"]
    assert record["provenance"]["tf32"]


def test_progress_ends_at_its_total() -> None:
    told: list[tuple[int, int]] = []
    settings = Settings(**TINY, methods=parse_methods("source"), batch_sizes=(8,), seconds=0.0)
    result = benchmark(settings, lambda done, total: told.append((done, total)))
    assert told == [(done, 5) for done in range(6)]
    assert len(result.measurements) == 5  # floor, bare, source; then floor and source update
    assert result.summary.rotta_over_floor is None
    assert result.summary.medians_ms["rotta"] is None


def test_what_cannot_be_built_is_refused_before_anything_is_measured() -> None:
    told: list[int] = []
    settings = Settings(**TINY, methods=parse_methods("rotta:capacity=0"))
    with pytest.raises(ValueError, match="capacity must be 1 or more"):
        benchmark(settings, lambda done, _: told.append(done))
    assert not told
