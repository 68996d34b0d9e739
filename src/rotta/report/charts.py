"""Charts over the course of a stream, as SVG that needs nothing but the page's style sheet."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from rotta.report import svg
from rotta.report.marks import Mark, draw_marks
from rotta.report.series import Floats, Series
from rotta.report.svg import Frame, Stay, StayNames
from rotta.results import BankCourse

AXIS = 18  # pixels for the numbers of samples


@dataclass(frozen=True)
class Chart:
    """A picture, and what the page's script shows where the pointer is."""

    svg: Markup
    hover: str
    """JSON."""


@dataclass(frozen=True)
class Size:
    """Of a chart, in pixels, and whether it has room for the domains' names."""

    width: float
    height: float
    named: bool


WIDE = Size(1080, 360, named=True)
FLAT = Size(1080, 210, named=True)
HALF = Size(530, 220, named=False)


def line_chart(
    title: str,
    curves: Sequence[Series],
    samples: Floats,
    stays: Sequence[Stay],
    *,
    size: Size,
    unit: str = "",
    y_max: float | None = None,
    marks: Sequence[Mark] = (),
) -> Chart:
    """Curves of windows, each with a band if the seeds differ, the strong ones on top.

    Args:
        title: What is shown.
        curves: At least one.
        samples: Seen at the end of each window, (W,); at least one window.
        stays: Shaded behind the curves and named below them; may be empty.
        size: Of the chart.
        unit: Of the values.
        y_max: Of the axis; fits the values if none.
        marks: On the curves.
    """
    highest = max((float(v) for c in curves for v in c.high if np.isfinite(v)), default=1.0)
    steps = svg.ticks(y_max or highest or 1.0)
    names = StayNames(stays if size.named else [], size.width - Frame.left - Frame.right)
    frame = Frame(size.width, size.height, float(samples[-1]), steps[-1], names.height + AXIS)
    xs = np.array([frame.x(value) for value in _middles(samples)])
    in_order = sorted(curves, key=lambda c: c.strong)
    drawn = [*(_curve(frame, xs, c) for c in in_order), *draw_marks(frame, xs, in_order, marks)]
    body = [*_background(frame, stays, steps, unit), *drawn, *names.draw(frame)]
    described = f"{len(curves)} curves over {samples[-1]:,.0f} samples: " + "; ".join(
        f"{curve.name} {_mean(curve.mean)}{unit} on average" for curve in curves
    )
    entries = [(c.name, f"var(--c{c.colour})", [_round(v) for v in c.mean]) for c in curves]
    picture = svg.document(size.width, size.height, title, described, svg.joined(body))
    digits = 1 if unit else 2
    return Chart(picture, _hover(frame, xs, _places(samples, stays), unit, digits, entries))


def stacked_areas(
    title: str,
    bank: BankCourse,
    classes: Sequence[str],
    fills: Sequence[str],
    stays: Sequence[Stay],
) -> Chart:
    """What a bank held of each class, one on top of the other.

    Args:
        title: What is shown.
        bank: With at least one window.
        classes: Their names, (C,).
        fills: A colour for each, (C,).
        stays: Shaded behind.
    """
    empty = [0] * len(classes)  # as every bank begins
    counts = np.asarray([empty, *bank.counts], dtype=np.float64)
    samples = np.asarray([0, *bank.samples], dtype=np.float64)
    tops = counts.cumsum(axis=1)
    fullest = max(1.0, float(tops.max()))
    steps = [step for step in svg.ticks(fullest, about=4) if step <= fullest]
    frame = Frame(HALF.width, HALF.height, float(samples[-1]), fullest, AXIS)
    xs = np.array([frame.x(value) for value in samples])
    heights = frame.y(0) + (frame.y(1) - frame.y(0)) * np.pad(tops, ((0, 0), (1, 0)))
    areas = [
        Markup('<path class="part" fill="{}" d="{}"/>').format(
            fill, svg.area(xs, heights[:, index], heights[:, index + 1])
        )
        for index, fill in enumerate(fills)
    ]
    described = "At the end: " + ", ".join(
        f"{name} {count:.0f}" for name, count in zip(classes, counts[-1], strict=True)
    )
    entries = [
        (n, f, counts[:, i].tolist()) for i, (n, f) in enumerate(zip(classes, fills, strict=True))
    ]
    body = svg.joined([*_background(frame, stays, steps, ""), *areas])
    picture = svg.document(HALF.width, HALF.height, title, described, body)
    return Chart(picture, _hover(frame, xs, _places(samples, stays), "", 0, entries))


def _background(
    frame: Frame, stays: Sequence[Stay], steps: Sequence[float], unit: str
) -> list[Markup]:
    axes = [*svg.y_axis(frame, steps, unit), *svg.x_axis(frame)]
    return [*svg.stays_behind(frame, stays), *axes]


def _curve(frame: Frame, xs: Floats, curve: Series) -> Markup:
    def height(values: Floats) -> Floats:
        return np.array([frame.y(value) for value in values])

    band = ""
    if np.any(curve.high > curve.low):
        outline = svg.area(xs, height(curve.low), height(curve.high))
        band = Markup('<path class="band" d="{}"/>').format(outline)
    css = f"series k{curve.colour}" + (" strong" if curve.strong else "")
    return Markup('<g class="{}" data-series="{}">{}<path class="line" d="{}"/></g>').format(
        css, curve.name, band, svg.curve(xs, height(curve.mean))
    )


def _middles(samples: Floats) -> Floats:
    """Of the windows: where their values belong."""
    starts = np.concatenate([[0.0], samples[:-1]])
    return np.asarray((starts + samples) / 2)


def _mean(values: Floats) -> str:
    there = values[np.isfinite(values)]
    return f"{there.mean():.2f}" if len(there) else "undefined"


def _round(value: float) -> float | None:
    return round(float(value), 2) if np.isfinite(value) else None


def _places(samples: Floats, stays: Sequence[Stay]) -> list[str]:
    """Each window in words: how far the stream has come, and where it is."""
    middles = _middles(samples)
    ends = np.array([stay.end for stay in stays])
    names = [f", {stays[int(np.searchsorted(ends, m))].name}" if stays else "" for m in middles]
    return [f"{s:,.0f} samples{n}" for s, n in zip(samples, names, strict=True)]


def _hover(
    frame: Frame,
    xs: Floats,
    places: Sequence[str],
    unit: str,
    digits: int,
    entries: Sequence[tuple[str, str, Sequence[float | None]]],
) -> str:
    return json.dumps(
        {
            "kind": "windows",
            "x": [round(float(x), 1) for x in xs],
            "top": frame.top,
            "base": frame.base,
            "places": places,
            "unit": unit,
            "digits": digits,
            "entries": [{"name": n, "colour": c, "values": list(v)} for n, c, v in entries],
        },
        separators=(",", ":"),
    )
