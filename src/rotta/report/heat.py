"""Heat maps, for more classes than an eye tells apart by colour."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from rotta.report import svg
from rotta.report.charts import AXIS, HALF, WIDE, Chart
from rotta.report.series import Floats
from rotta.report.svg import Frame, Stay
from rotta.results import BankCourse

_LEVELS = 8  # as many as the page's style sheet has
_ROW = 22  # pixels per method
_NARROWEST_NAMED = 8  # pixels of a column whose name can still be read
_LONGEST_NAME = 110  # pixels
_MOST_ROWS = 150  # of a bank's map; beyond, neighbouring classes share one


@dataclass(frozen=True)
class _Grid:
    """Where the cells lie, in pixels."""

    left: float
    top: float
    wide: float
    tall: float


def class_map(
    title: str, methods: Mapping[str, bool], classes: Sequence[str], errors: Floats
) -> Chart:
    """Error of each method on each class.

    Args:
        title: What is shown.
        methods: Their names, (M,), and whether to bring them forward.
        classes: Their names, (C,).
        errors: In percent, NaN where there was no sample, (M, C).
    """
    left = min(200.0, max(svg.text_width(name) for name in methods) + 12)
    wide = (WIDE.width - left) / len(classes)
    named = wide >= _NARROWEST_NAMED
    longest = max(svg.text_width(name) for name in classes)
    grid = _Grid(left, min(_LONGEST_NAME, longest) + 8 if named else AXIS, wide, _ROW)
    above = (
        _column_names(classes, grid)
        if named
        else [svg.text(left, 12, f"{classes[0]} … {classes[-1]}, {len(classes)} classes", "faint")]
    )
    beside = [
        svg.text(
            left - 8,
            grid.top + _ROW * (i + 0.5) + 4,
            svg.shortened(name, left - 10),
            "end forward" if forward else "end",
        )
        for i, (name, forward) in enumerate(methods.items())
    ]
    body = svg.joined([*_cells(errors / 100, grid), *beside, *above])
    described = f"{len(methods)} methods by {len(classes)} classes; strong colours are high errors."
    picture = svg.document(WIDE.width, grid.top + _ROW * len(methods), title, described, body)
    return Chart(picture, _hover(errors, grid, list(methods), classes, " %", digits=1))


def bank_map(title: str, bank: BankCourse, classes: Sequence[str], stays: Sequence[Stay]) -> Chart:
    """What a bank held of each class: classes from top to bottom, time from left to right.

    Args:
        title: What is shown.
        bank: With at least one window.
        classes: Their names, (C,).
        stays: Shaded behind.
    """
    counts = np.asarray(bank.counts, dtype=np.float64).T
    together = math.ceil(len(classes) / _MOST_ROWS)
    starts = list(range(0, len(classes), together))
    held = np.add.reduceat(counts, starts, axis=0)
    frame = Frame(HALF.width, HALF.height + 60, float(bank.samples[-1]), 1.0, bottom=AXIS)
    wide = (frame.width - frame.left - frame.right) / len(bank.samples)
    grid = _Grid(frame.left, frame.top, wide, (frame.base - frame.top) / len(held))
    beside = [
        svg.text(grid.left - 6, grid.top + grid.tall * i + 9, f"{starts[i]}", "end faint")
        for i in range(0, len(held), math.ceil(len(held) / 5))
    ]
    cells = _cells(held / max(1.0, held.max()), grid)
    body = svg.joined([*svg.stays_behind(frame, stays), *cells, *beside, *svg.x_axis(frame)])
    described = f"{int((counts[:, -1] > 0).sum())} of {len(classes)} classes are held at the end."
    picture = svg.document(frame.width, frame.height, title, described, body)
    rows = [_range(classes[i : i + together]) for i in starts]
    places = [f"{value:,} samples" for value in bank.samples]
    return Chart(picture, _hover(held, grid, rows, places, "", digits=0))


def _column_names(names: Sequence[str], grid: _Grid) -> list[Markup]:
    """Reading upwards, above the columns."""
    short = [svg.shortened(name, _LONGEST_NAME) for name in names]
    return [
        svg.text(grid.left + grid.wide * (i + 0.5) + 4, grid.top - 5, name, "small", turned=True)
        for i, name in enumerate(short)
    ]


def _range(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def _cells(shares: Floats, grid: _Grid) -> list[Markup]:
    """One path per strength of colour; equal neighbours in a row are one rectangle."""
    levels = np.ceil(np.nan_to_num(shares) * _LEVELS).astype(np.int64)
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(levels):
        for start, end in pairwise([0, *(np.flatnonzero(np.diff(row)) + 1), len(row)]):
            x, y, wide = grid.left + grid.wide * start, grid.top + grid.tall * i, end - start
            box = f"M{x:.2f} {y:.2f}h{grid.wide * wide:.2f}v{grid.tall:.2f}H{x:.2f}z"
            paths.setdefault(int(row[start]), []).append(box)
    paths.pop(0, None)
    return [
        Markup('<path class="heat h{}" d="{}"/>').format(level, "".join(boxes))
        for level, boxes in sorted(paths.items())
    ]


def _hover(
    values: Floats,
    grid: _Grid,
    rows: Sequence[str],
    columns: Sequence[str],
    unit: str,
    *,
    digits: int,
) -> str:
    shown = [[round(float(v), digits) if np.isfinite(v) else None for v in row] for row in values]
    names = {"rows": rows, "columns": columns}
    told = {
        "kind": "cells",
        **asdict(grid),
        **names,
        "unit": unit,
        "digits": digits,
        "values": shown,
    }
    return json.dumps(told, separators=(",", ":"))
