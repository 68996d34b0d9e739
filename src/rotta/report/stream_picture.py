"""The paper's picture of a test stream: which classes and which domains arrive when."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from rotta.report.domain_band import Band, domain_colours
from rotta.report.picture_file import picture_path, save_picture
from rotta.report.stream_row import Timeline, draw_classes, draw_domains, label
from rotta.report.swatches import Colours, Swatches, class_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 200  # 2,400 pixels wide, so still sharp at half the size
# Lengths in inches.
_WIDTH, _LEFT, _RIGHT, _EDGE = 12.0, 0.95, 0.4, 0.1
_ROW, _GAP, _AXIS, _STRIP = 0.8, 0.1, 0.5, 0.16
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_MAX_LEGEND_CLASSES = 20
_MOST_STAYS = 2000  # a band draws each by itself


@runtime_checkable
class HasTimeline(Protocol):
    """What knows its timeline; ``rotta.streams.Stream`` is one."""

    def timeline(self) -> Timeline:
        """Labels and domains in the order of arrival."""


def draw_stream(streams: Sequence[HasTimeline | Timeline], path: str | Path) -> None:
    """Draw streams that differ in δ or in the arrival, one row each.

    A column of a row is a window of consecutive samples, filled from the bottom with the classes
    in it, in proportion. Independent samples give level stripes; correlated ones give blocks. A
    dark line is the severity, where it changes. Streams that pass through their domains alike
    have one band of them beneath; others have a strip each.

    Args:
        streams: At least one, from top to bottom: streams, or their timelines.
        path: Ends in ``.png`` or ``.svg``. The file is complete or not there.

    Raises:
        ValueError: Nothing to draw, another suffix, or streams over different domains or classes,
            or of one arrival and different length.
    """
    path = picture_path(path)
    timelines = [s.timeline() if isinstance(s, HasTimeline) else s for s in streams]
    _check_comparable(timelines)
    save_picture(path, partial(_figure, timelines), _DPI)


def _check_comparable(timelines: Sequence[Timeline]) -> None:
    if not timelines or not len(timelines[0].labels):
        raise ValueError("there is nothing to draw: pass at least one stream that holds samples")
    first = timelines[0]
    lengths: dict[str, int] = {}
    for each in timelines:
        length = lengths.setdefault(each.arrival, len(each.labels))
        if (
            each.domain_names != first.domain_names
            or each.class_names != first.class_names
            or len(each.labels) != length
        ):
            raise ValueError(
                "streams of one picture must share classes, domains and their order; "
                "draw the others into a picture of their own"
            )


def _figure(timelines: Sequence[Timeline]) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = timelines[0]
    colours, tints = class_colours(len(first.class_names)), domain_colours(len(first.domain_names))
    class_legend = _class_legend(first.class_names, colours)
    above = class_legend.height + _GAP if class_legend else 0
    band = Band(first.domains, first.domain_names, _PLOT_WIDTH) if _alike(timelines) else None
    strip, shared = (0.0, band.height) if band else (_STRIP, 0.0)
    domain_legend = band.legend if band else _domain_legend(first.domain_names, tints)
    rows = len(timelines) * (_ROW + strip + _GAP)
    beneath = domain_legend.height + _GAP if domain_legend else 0
    height = _EDGE + above + rows + shared + _AXIS + beneath + _EDGE

    figure = Figure(figsize=(_WIDTH, height))
    FigureCanvasAgg(figure)

    def axes(top: float, tall: float) -> "Axes":
        """Axes over the width of the plot, ``top`` inches below the upper edge."""
        box = (_LEFT / _WIDTH, 1 - (top + tall) / height, _PLOT_WIDTH / _WIDTH, tall / height)
        return figure.add_axes(box)

    if class_legend:
        class_legend.draw(axes(_EDGE, class_legend.height))
    unusual = any(timeline.arrival != "steady" for timeline in timelines)
    longest = max(len(timeline.labels) for timeline in timelines)
    top = _EDGE + above
    for timeline in timelines:
        row = axes(top, _ROW)
        draw_classes(row, timeline, colours, longest)
        label(row, timeline, with_arrival=unusual)
        if not band:
            lowest = axes(top + _ROW, _STRIP)
            draw_domains(lowest, timeline, tints, longest)
        top += _ROW + strip + _GAP
    if band:
        lowest = axes(top, band.height)
        band.draw(lowest)
    _label_samples(lowest, longest)
    if domain_legend:
        domain_legend.draw(axes(top + shared + _AXIS + _GAP, domain_legend.height))
    return figure


def _alike(timelines: Sequence[Timeline]) -> bool:
    """Whether one band of stays says of all streams where they are."""
    first = timelines[0].domains
    few = bool(np.count_nonzero(np.diff(first)) < _MOST_STAYS)
    return few and all(np.array_equal(timeline.domains, first) for timeline in timelines)


def _class_legend(names: tuple[str, ...], colours: Colours) -> Swatches | None:
    """``None`` for more classes than an eye tells apart."""
    return Swatches(names, colours, _PLOT_WIDTH) if len(names) <= _MAX_LEGEND_CLASSES else None


def _domain_legend(names: tuple[str, ...], tints: Colours) -> Swatches:
    return Swatches([name.replace("_", " ") for name in names], tints, _PLOT_WIDTH)


def _label_samples(axes: "Axes", num_samples: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlim(0, num_samples)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="x", labelsize=9, color="0.5", labelcolor="0.25")
    axes.set_xlabel("samples", fontsize=10, color="0.25")
