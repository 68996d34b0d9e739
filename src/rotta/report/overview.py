"""Several runs side by side: the averages of each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rotta.report.incident_words import skipped_by, skipped_words
from rotta.report.names import emphasised, method_name
from rotta.report.runs import Run
from rotta.report.tables import Cell, ranked


@dataclass(frozen=True)
class OverviewRow:
    """One method's average in each run."""

    name: str
    strong: bool
    cells: tuple[Cell, ...]
    skipped: tuple[str, ...]
    """What it skipped in each run, in words; empty if nothing."""


@dataclass(frozen=True)
class Overview:
    """Methods down, runs across."""

    verdict: str
    rows: Sequence[OverviewRow]


def overview(runs: Sequence[Run]) -> Overview:
    """Rank the methods in every run by their average error."""
    labels = list(dict.fromkeys(label for run in runs for label in run.result.methods))
    columns = []
    for run in runs:
        methods = run.result.methods
        columns.append(ranked(methods[m].average_error if m in methods else None for m in labels))
    strong = emphasised(labels)
    rows = [
        OverviewRow(
            method_name(label),
            label in strong,
            tuple(column[i] for column in columns),
            tuple(_skipped(run, label) for run in runs),
        )
        for i, label in enumerate(labels)
    ]
    return Overview(_verdict(rows, len(runs)), rows)


def _skipped(run: Run, label: str) -> str:
    method = run.result.methods.get(label)
    return skipped_words(skipped_by(method)) if method else ""


def _verdict(rows: Sequence[OverviewRow], num_runs: int) -> str:
    wins = Counter({row.name: sum(cell.rank == 1 for cell in row.cells) for row in rows})
    counted = [(name, count) for name, count in wins.most_common() if count]
    if not counted:
        return f"{rows[0].name} in {num_runs} runs."
    name, count = counted[0]
    if count == num_runs:
        return f"{name} has the lowest average error in all {num_runs} runs."
    others = "".join(f", {other} in {wins}" for other, wins in counted[1:])
    return f"{name} has the lowest average error in {count} of {num_runs} runs{others}."
