"""The tables for docs/performance.md, from the results of ``rotta bench`` and ``rotta run``."""

import json
from pathlib import Path
from typing import Any

from markdown_table import table
from rotta.report.names import method_name
from rotta.results import Result

HERE = Path(__file__).parent
_NAMES = {
    "floor": "the floor",
    "bare": "the network alone",
    "plain": "RoTTA, sample by sample",
    "rotta:graphs=false": "RoTTA, `graphs=False`",
    "rotta:precision=float16": 'RoTTA, `precision="float16"`',
    "rotta:precision=bfloat16": 'RoTTA, `precision="bfloat16"`',
}


def load(name: str) -> dict[str, Any]:
    """A result of ``rotta bench``."""
    result: dict[str, Any] = json.loads((HERE / "results" / f"bench-{name}.json").read_text())
    return result


_SUMMARY = {
    "h200-wrn-28-10": "H200, WRN-28-10",
    "h200-resnext-29": "H200, ResNeXt-29",
    "cpu-wrn-40-2": "two CPU cores, WRN-40-2",
    "cpu-resnet-18": "two CPU cores, ResNet-18 at 64×64",
}


def summary() -> str:
    """The floor, RoTTA, its fastest setting and the plain way, on every machine."""
    rows = []
    for name, title in _SUMMARY.items():
        cells = _cells(load(name))
        ways = ("plain", "floor", "rotta", "rotta:precision=float16")
        rows.append([title, *(_ms(cells.get((way, "predict+update", 64))) for way in ways)])
    headings = ["ms per batch of 64", "sample by sample", "the passes alone", "RoTTA", "in float16"]
    return table(headings, rows)


def methods(name: str) -> str:
    """Everybody at batch 64."""
    cells = _cells(load(name))
    rows = []
    for subject in dict.fromkeys(subject for subject, _, _ in cells):
        predict = cells.get((subject, "predict", 64))
        whole = cells.get((subject, "predict+update", 64))
        rows.append(
            [
                _named(subject),
                _ms(predict),
                _ms(whole),
                f"{whole['over_floor']:.2f}" if whole else "",
                _ms(whole, "p95_ms"),
                f"{whole['peak_memory_mib']:,.0f}" if whole else "",
            ]
        )
    headings = ["batch 64", "predict, ms", "predict + update, ms", "× floor", "p95, ms", "MiB"]
    return table(headings, rows)


def batches(name: str) -> str:
    """RoTTA beside the floor at every batch size, per call."""
    cells = _cells(load(name))
    rows = []
    for batch in dict.fromkeys(batch for _, _, batch in cells):
        row = [str(batch)]
        for what in ("predict", "predict+update"):
            row += [_ms(cells.get((subject, what, batch))) for subject in ("floor", "rotta")]
        rows.append(row)
    headings = ["batch", "predict: floor", "RoTTA", "with updates: floor", "RoTTA"]
    return table(headings, rows)


def precision() -> str:
    """What reduced precision costs in error."""
    rows: dict[str, dict[str, str]] = {}
    for file in ("cifar10-c", "cifar100-c", "cifar10-c-bfloat16"):
        result = Result.load(HERE / "results" / f"precision-{file}.json")
        for label, method in result.methods.items():
            cell = f"{method.average_error:.2f} ({len(method.seeds)})"
            rows.setdefault(label, {})[result.config["dataset"]] = cell
    lines = [
        [_named(label), cells["cifar10-c"], cells.get("cifar100-c", "not run")]
        for label, cells in rows.items()
    ]
    return table(["error over the stream (seeds)", "CIFAR10-C", "CIFAR100-C"], lines)


def _cells(result: dict[str, Any]) -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(m["subject"], m["what"], m["batch"]): m for m in result["measurements"]}


def _named(subject: str) -> str:
    return _NAMES.get(subject) or method_name(subject)


def _ms(cell: dict[str, Any] | None, what: str = "median_ms") -> str:
    if cell is None:
        return ""
    ms: float = cell[what]
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
