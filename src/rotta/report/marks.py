"""Marks on curves, at the moments when a guard did something."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from rotta.report import svg
from rotta.report.guard_log import event_words
from rotta.report.names import method_name
from rotta.report.series import Floats, Series
from rotta.report.svg import Frame
from rotta.results import Result

_APART = 10  # pixels; what is nearer to each other shares a mark
_OUTLINES = {  # each within a circle of radius 1 around its middle
    "lower the rate": ((-0.95, -0.7), (0.95, -0.7), (0, 1)),
    "roll back": ((-1, 0), (0, -1), (1, 0), (0, 1)),
    "reset": ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)),
    "raise the rate": ((-0.95, 0.7), (0, -1), (0.95, 0.7)),
    "leave out": ((-1, -0.35), (1, -0.35), (1, 0.35), (-1, 0.35)),
    "learn again": ((-0.35, -1), (0.35, -1), (0.35, 1), (-0.35, 1)),
}
_RADIUS, _STACKED = 6.5, 15  # pixels; marks of one moment lie above each other


@dataclass(frozen=True)
class Mark:
    """A place on a method's curve."""

    series: str
    """The curve's name."""
    samples: int
    """Seen by then."""
    action: str
    words: str
    """For whoever points at it."""


def marks(result: Result) -> list[Mark]:
    """One for each thing that a guard did."""
    return [
        Mark(method_name(label), event.samples, event.action, event_words(label, seed, event))
        for label, method in result.methods.items()
        for seed, walk in method.seeds.items()
        for event in walk.events
    ]


def draw_marks(
    frame: Frame, xs: Floats, curves: Sequence[Series], wanted: Sequence[Mark]
) -> Iterator[Markup]:
    """A group for each curve that has any, to be switched on and off with it.

    Args:
        frame: Of the chart.
        xs: Where the curves' values are, in pixels, (W,).
        curves: At least those that are marked.
        wanted: The marks; those of one kind that would cover each other become one.
    """
    for curve in curves:
        heights = np.array([frame.y(value) for value in curve.mean])
        shapes = []
        for x, above, near in _gathered(frame, [m for m in wanted if m.series == curve.name]):
            height = np.nan_to_num(np.interp(x, xs, heights), nan=frame.base)
            y = max(frame.top, float(height) - _STACKED * above)
            shapes.append(
                Markup('<path class="mark" d="{}"><title>{}</title></path>').format(
                    outline(near[0].action, x, y), _words(near)
                )
            )
        if shapes:
            yield Markup('<g class="series k{}" data-series="{}">{}</g>').format(
                curve.colour, curve.name, svg.joined(shapes)
            )


def outline(action: str, x: float, y: float) -> str:
    """The ``d`` of an action's shape around a place; a square for those that are not known."""
    corners = _OUTLINES.get(action, _OUTLINES["reset"])
    points = (
        f"{svg.number(x + _RADIUS * right)} {svg.number(y + _RADIUS * down)}"
        for right, down in corners
    )
    return "M" + "L".join(points) + "Z"


def _gathered(frame: Frame, wanted: Sequence[Mark]) -> Iterator[tuple[float, int, list[Mark]]]:
    """Those that share a mark: its x in pixels, and how many others lie below it."""
    columns: dict[int, dict[str, list[Mark]]] = {}
    for mark in sorted(wanted, key=lambda mark: mark.samples):
        column = columns.setdefault(int(frame.x(mark.samples) // _APART), {})
        column.setdefault(mark.action, []).append(mark)
    for by_action in columns.values():
        first = min(mark.samples for near in by_action.values() for mark in near)
        for above, near in enumerate(by_action.values()):
            yield frame.x(first), above, near


def _words(near: Sequence[Mark]) -> str:
    more = f", and {len(near) - 1} more close by" if len(near) > 1 else ""
    return near[0].words + more
