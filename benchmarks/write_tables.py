"""Fill the tables in README.md and docs/ with the results in benchmarks/results/.

    python benchmarks/write_tables.py

A table stands between ``<!-- NAME -->`` and ``<!-- end -->``; what is between is replaced.
"""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import method_tables
import speed_tables
from markdown_table import table

HERE = Path(__file__).parent
PAGES = (HERE.parent / "README.md", *sorted((HERE.parent / "docs").glob("*.md")))
SOURCES = (
    "cifar10-wrn28-10",
    "cifar100-resnext29-augmix",
    "cifar10-wrn40-2-augmix",
    "cifar100-wrn40-2-augmix",
)


def _result(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((HERE / "results" / f"{name}.json").read_text())
    return result


def errors() -> str:
    """Original, ours and the difference, per corruption, for every source model."""
    golden = json.loads((HERE / "source_rows.json").read_text())
    results = [_result(f"source-errors-{source}") for source in SOURCES]
    rows = []
    for number, name in enumerate(golden["order"]):
        cells = [name]
        for source, result in zip(SOURCES, results, strict=True):
            theirs, ours = golden["rows"][source]["errors"][number], result["errors"]["5"][name]
            cells.append(_change(theirs, ours, result["difference"][name]))
        rows.append(cells)
    averages = ["**average**"]
    for source, result in zip(SOURCES, results, strict=True):
        ours = sum(result["errors"]["5"].values()) / len(golden["order"])
        theirs = golden["rows"][source]["average"]
        averages.append(_change(theirs, ours, result["difference"]["average"]))
    headings = ["original → ours"]
    for source, result in zip(SOURCES, results, strict=True):
        headings.append(f"`{source}`, {result['images']:,} images")
    return table(headings, [*rows, averages])


def _change(theirs: float, ours: float, difference: float) -> str:
    return f"{theirs:.1f} → {ours:.1f} ({round(difference, 1) + 0.0:+.1f})"  # + 0.0: no minus zero


def severities() -> str:
    """Average error at each severity."""
    rows = []
    for source in SOURCES:
        by_severity = _result(f"source-errors-{source}")["errors"]
        averages = [sum(e.values()) / len(e) for e in by_severity.values()]
        rows.append([f"`{source}`", *(f"{average:.1f}" for average in averages)])
    return table(["average error at severity", "1", "2", "3", "4", "5"], rows)


def speed() -> str:
    """Seconds for all fifteen corruptions of 10,000 images."""
    cpu, gpu = _result("corruptions-cpu"), _result("corruptions-h200")
    original = cpu["original_generator_seconds"]
    rows = [["the original generator, two cores", f"{original:.0f}", ""]]
    for what, result in (("rotta, two cores", cpu), (f"rotta, {_device(gpu)}", gpu)):
        seconds = result["total_seconds"]
        rows.append([what, f"{seconds:.2g}", f"{original / seconds:.0f} ×"])
    return table(["", "seconds", "faster"], rows)


def clean() -> str:
    """Clean errors, measured with the files at hand."""
    rows = []
    for source in SOURCES:
        result = _result(f"source-errors-{source}")
        rows.append([f"`{source}`", f"{result['clean_error']:.2f} %", _device(result)])
    return table(["source model", "measured", "on"], rows)


def _device(result: dict[str, Any]) -> str:
    name: str = result["provenance"]["device"]
    return name


TABLES: dict[str, Callable[[], str]] = {
    "errors": errors,
    "severities": severities,
    "speed": speed,
    "clean": clean,
    "cifar methods": method_tables.cifar,
    "digits methods": method_tables.digits,
    "digits ablation": method_tables.ablation,
    "speed summary": speed_tables.summary,
    "speed h200 wrn-28-10": partial(speed_tables.methods, "h200-wrn-28-10"),
    "speed h200 resnext-29": partial(speed_tables.methods, "h200-resnext-29"),
    "speed h200 batches": partial(speed_tables.batches, "h200-wrn-28-10-batches"),
    "speed precision": speed_tables.precision,
    "speed cpu wrn-40-2": partial(speed_tables.methods, "cpu-wrn-40-2"),
    "speed cpu resnet-18": partial(speed_tables.methods, "cpu-resnet-18"),
}


def filled(text: str) -> str:
    """A page with its tables as they are now."""
    for name, make in TABLES.items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", flags=re.DOTALL)
        text = between.sub(lambda found, make=make: f"{found[1]}{make()}\n{found[2]}", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
