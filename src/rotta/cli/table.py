"""The comparison on the terminal, as the paper prints it."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from rotta.report.beside import Grid
from rotta.report.tables import Cell, ComparisonTable

_STYLES = {0: "{}", 1: "[bold]{}[/]", 2: "[underline]{}[/]"}
_ANY_WIDTH = 10_000


def terminal_table(table: ComparisonTable, console: Console) -> Table:
    """Methods down and domains across where that fits the terminal, else the other way round.

    Args:
        table: The errors.
        console: Where it will be printed.
    """
    averages = [_styled(row.average) for row in table.rows]
    spreads = ["" if row.std is None else f"± {row.std:.1f}" for row in table.rows]
    joined = [
        f"{average} {spread}".strip() for average, spread in zip(averages, spreads, strict=True)
    ]
    across = _table(list(zip(*_lines(table, ("average", *joined)), strict=True)))
    width = Measurement.get(console, console.options.update(width=_ANY_WIDTH), across).maximum
    if width <= console.width:
        return across
    spread_line = [("", *spreads)] if any(spreads) else []
    return _table(_lines(table, ("average", *averages), *spread_line))


def beside_table(grid: Grid) -> Table:
    """What was measured, and in brackets what the paper prints."""
    lines: list[Sequence[str]] = [(grid.corner, *grid.columns)]
    for name, entries in grid.rows:
        cells = []
        for entry in entries:
            measured = "missing" if entry.value is None else f"{entry.value:.1f}"
            paper = "" if entry.printed is None else f" ({entry.printed:.1f})"
            cells.append(measured + paper if entry.applies else "")
        lines.append((name, *cells))
    return _table([[escape(cell) for cell in line] for line in lines])


def _lines(table: ComparisonTable, *averages: Sequence[str]) -> list[Sequence[str]]:
    """A line per domain, with a cell per method."""
    return [
        ("error %", *(escape(row.name) for row in table.rows)),
        *(
            (escape(header), *(_styled(row.cells[i]) for row in table.rows))
            for i, header in enumerate(table.short_headers)
        ),
        *averages,
        ("ms/batch", *(f"{row.ms_per_batch:.1f}" for row in table.rows)),
    ]


def _table(lines: Sequence[Sequence[str]]) -> Table:
    """The first line is the header; numbers end below each other."""
    head, *body = lines
    table = Table(box=None, header_style="")
    for number, heading in enumerate(head):
        first = number == 0
        table.add_column(
            heading, justify="left" if first else "right", no_wrap=first, overflow="fold"
        )
    for line in body:
        table.add_row(*line)
    return table


def _styled(cell: Cell) -> str:
    return _STYLES[cell.rank].format(cell.text)
