"""What a table says, in a sentence."""

from collections.abc import Sequence

from rotta.report.tables import ComparisonTable, Row


def verdict(table: ComparisonTable) -> str:
    """Who has the lowest average error, by how much, and what RoTTA has if it is far from that.

    Differences are those of the printed figures.

    Example:
        >>> from rotta.report.tables import Cell
        >>> rotta = Row("rotta", "RoTTA", (), Cell(12.34, 1), None, 9.0)
        >>> note = Row("note", "NOTE", (), Cell(20.0, 2), None, 5.0)
        >>> verdict(ComparisonTable((), (note, rotta)))
        'RoTTA has the lowest average error: 12.3 %, 7.7 points below NOTE, the next best.'
    """
    rows = sorted((row for row in table.rows if row.average.value is not None), key=_printed)
    if not rows:
        return "No method reached a domain."
    best = [row for row in rows if _printed(row) == _printed(rows[0])]
    others = rows[len(best) :]
    if len(rows) == 1:
        return f"{rows[0].name} has an average error of {rows[0].average.text} %."
    if len(best) > 1:
        first = f"{_joined(best)} share the lowest average error: {best[0].average.text} %."
    else:
        first = (
            f"{best[0].name} has the lowest average error: {best[0].average.text} %, "
            f"{_gap(others[0], best[0])} points below {others[0].name}, the next best"
            f"{_doubt(best[0], others[0])}{_gain(best[0], others[1:])}."
        )
    unnamed = others if len(best) > 1 else others[1:]
    return " ".join([first, *_rotta_among(unnamed)])


def _printed(row: Row) -> float:
    return round(row.average.value or 0.0, 1)


def _gap(higher: Row, lower: Row) -> str:
    return f"{_printed(higher) - _printed(lower):.1f}"


def _joined(rows: Sequence[Row]) -> str:
    *most, last = [row.name for row in rows]
    return f"{', '.join(most)} and {last}"


def _doubt(best: Row, second: Row) -> str:
    """A gap that is smaller than what the seeds make of it is no victory."""
    spread = max(best.std or 0.0, second.std or 0.0)
    return " (less than the seeds differ)" if _printed(second) - _printed(best) < spread else ""


def _gain(best: Row, others: Sequence[Row]) -> str:
    source = next((row for row in others if row.label == "source"), None)
    return f", and {_gap(source, best)} below the unadapted source model" if source else ""


def _rotta_among(unnamed: Sequence[Row]) -> list[str]:
    return [f"RoTTA has {row.average.text} %." for row in unnamed if row.label == "rotta"]
