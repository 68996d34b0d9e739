"""What a result says about the single classes: errors on them, and their places in the banks."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from rotta.report.charts import stacked_areas
from rotta.report.figures import Figure, age_figure
from rotta.report.heat import bank_map, class_map
from rotta.report.names import emphasised, method_name
from rotta.report.svg import Stay
from rotta.report.swatches import class_colours
from rotta.report.tables import ComparisonTable, comparison_table
from rotta.results import Result

_MOST_TOLD_APART = 20  # by colour, or as columns of a table


@dataclass(frozen=True)
class Banks:
    """What the memory banks of a run's methods held."""

    seed: str
    """Whose walk it is."""
    figures: Sequence[Figure]
    """One per method that has a bank."""
    swatches: Sequence[tuple[str, str]]
    """Class and colour; none where there are too many for colours."""
    age: Figure


def class_errors(result: Result) -> ComparisonTable | Figure | None:
    """Errors of methods on classes: a table, or a heat map where they are many."""
    table = comparison_table(result, attrgetter("per_class"))
    if not table.domains:
        return None
    if len(table.domains) <= _MOST_TOLD_APART:
        return table
    errors = np.array([[_number(cell.value) for cell in row.cells] for row in table.rows])
    title = "Error on each class"
    strong = emphasised(result.methods)
    methods = {row.name: row.label in strong for row in table.rows}
    chart = class_map(title, methods, table.headers, errors)
    caption = "The stronger the colour, the more of its samples were taken for something else."
    return Figure(title, caption, chart, wide=True)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def banks(result: Result, stays: Sequence[Stay]) -> Banks | None:
    """The bank of each method that has one, in the walk of one seed."""
    seed = next((seed for method in result.methods.values() for seed in method.seeds), None)
    walks = {label: method.seeds.get(str(seed)) for label, method in result.methods.items()}
    held = {
        method_name(label): walk.bank
        for label, walk in walks.items()
        if walk and walk.bank and len(walk.bank.samples)
    }
    if not held:
        return None
    names = _class_names(result, num_classes=len(next(iter(held.values())).counts[0]))
    few = len(names) <= _MOST_TOLD_APART
    fills = [_hex(colour) for colour in class_colours(len(names))] if few else []
    charts = {
        name: stacked_areas(name, bank, names, fills, stays)
        if few
        else bank_map(name, bank, names, stays)
        for name, bank in held.items()
    }
    return Banks(
        seed=str(seed),
        figures=[Figure(name, "", chart) for name, chart in charts.items()],
        swatches=list(zip(names, fills, strict=True)) if few else [],
        age=age_figure(result, stays, wide=len(charts) % 2 == 0),  # two charts fill a row
    )


def _class_names(result: Result, num_classes: int) -> list[str]:
    recorded = [str(name) for name in result.config.get("classes") or []]
    return recorded if len(recorded) == num_classes else [f"class {i}" for i in range(num_classes)]


def _hex(colour: np.ndarray) -> str:
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in colour)
