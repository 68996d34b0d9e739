"""The paper's picture of a test stream: which classes and which domains arrive when."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rotta.atomic import replacing
from rotta.report.domain_band import Band
from rotta.report.swatches import Colours, Swatches, class_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 200  # 2,400 pixels wide, so still sharp at half the size
# Lengths in inches.
_WIDTH, _LEFT, _RIGHT, _EDGE = 12.0, 0.95, 0.4, 0.1
_ROW, _GAP, _AXIS = 0.8, 0.1, 0.5
_PLOT_WIDTH = _WIDTH - _LEFT - _RIGHT
_MAX_LEGEND_CLASSES = 20
_WINDOWS, _LEVELS = 1200, 240  # resolution of a row


class Timeline(Protocol):
    """What is drawn; ``rotta.streams.Timeline`` is one."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of each sample in the order of arrival, (N,)."""

    @property
    def domains(self) -> NDArray[np.int64]:
        """Domain of each sample, (N,)."""

    @property
    def domain_names(self) -> tuple[str, ...]:
        """One per domain."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """One per class."""

    @property
    def delta(self) -> float:
        """Concentration of the label order; infinite if independent."""


@runtime_checkable
class HasTimeline(Protocol):
    """What knows its timeline; ``rotta.streams.Stream`` is one."""

    def timeline(self) -> Timeline:
        """Labels and domains in the order of arrival."""


def draw_stream(streams: Sequence[HasTimeline | Timeline], path: str | Path) -> None:
    """Draw streams that differ in δ, one row each, over the domains that they share.

    A column of a row is a window of consecutive samples, filled from the bottom with the classes
    in it, in proportion. Independent samples give level stripes; correlated ones give blocks.

    Args:
        streams: At least one, from top to bottom: streams, or their timelines.
        path: Ends in ``.png`` or ``.svg``. The file is complete or not there.

    Raises:
        ValueError: Nothing to draw, another suffix, or streams over different domains or classes.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".png", ".svg"):
        raise ValueError(f"cannot draw to {path.name!r}: end the name in .png or .svg")
    timelines = [s.timeline() if isinstance(s, HasTimeline) else s for s in streams]
    _check_comparable(timelines)

    import matplotlib as mpl  # slow to import

    # A fixed salt and no date: the same streams give the same file.
    with mpl.rc_context({"svg.hashsalt": "rotta"}), replacing(path) as temporary:
        metadata = {"Date": None} if suffix == ".svg" else None
        _figure(timelines).savefig(temporary, format=suffix[1:], dpi=_DPI, metadata=metadata)


def _check_comparable(timelines: Sequence[Timeline]) -> None:
    if not timelines or not len(timelines[0].labels):
        raise ValueError("there is nothing to draw: pass at least one stream that holds samples")
    first = timelines[0]
    for other in timelines[1:]:
        if (
            other.domain_names != first.domain_names
            or other.class_names != first.class_names
            or not np.array_equal(other.domains, first.domains)
        ):
            raise ValueError(
                "streams of one picture must share classes, domains and their order; "
                "draw the others into a picture of their own"
            )


def _figure(timelines: Sequence[Timeline]) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = timelines[0]
    colours = class_colours(len(first.class_names))
    legend = _class_legend(first.class_names, colours)
    above = legend.height + _GAP if legend else 0
    band = Band(first.domains, first.domain_names, _PLOT_WIDTH)
    rows = len(timelines) * (_ROW + _GAP)
    beneath = band.legend.height + _GAP if band.legend else 0
    height = _EDGE + above + rows + band.height + _AXIS + beneath + _EDGE

    figure = Figure(figsize=(_WIDTH, height))
    FigureCanvasAgg(figure)

    def axes(top: float, tall: float) -> "Axes":
        """Axes over the width of the plot, ``top`` inches below the upper edge."""
        box = (_LEFT / _WIDTH, 1 - (top + tall) / height, _PLOT_WIDTH / _WIDTH, tall / height)
        return figure.add_axes(box)

    if legend:
        legend.draw(axes(_EDGE, legend.height))
    top = _EDGE + above
    for timeline in timelines:
        _draw_row(axes(top, _ROW), timeline, colours)
        top += _ROW + _GAP
    below = axes(top, band.height)
    band.draw(below)
    _label_samples(below, len(first.labels))
    if band.legend:
        band.legend.draw(axes(top + band.height + _AXIS + _GAP, band.legend.height))
    return figure


def _class_legend(names: tuple[str, ...], colours: Colours) -> Swatches | None:
    """``None`` for more classes than an eye tells apart."""
    return Swatches(names, colours, _PLOT_WIDTH) if len(names) <= _MAX_LEGEND_CLASSES else None


def _draw_row(axes: "Axes", timeline: Timeline, colours: Colours) -> None:
    picture = colours[_fill_windows(timeline.labels)]
    axes.imshow(
        picture,
        aspect="auto",
        interpolation="nearest",
        origin="lower",
        extent=(0, len(timeline.labels), 0, 1),
    )
    borders = np.flatnonzero(np.diff(timeline.domains)) + 1
    if len(borders) < _PLOT_WIDTH * 2:  # denser lines would hide what they separate
        axes.vlines(borders, 0, 1, colors="white", linewidth=1.0)
    axes.set(xlim=(0, len(timeline.labels)), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    delta = "i.i.d." if math.isinf(timeline.delta) else f"δ = {timeline.delta:g}"
    axes.set_ylabel(delta, rotation=0, ha="right", va="center", fontsize=11, labelpad=8)


def _fill_windows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class at each height of each window, (levels, windows): its labels, sorted."""
    windows = np.array_split(labels, min(_WINDOWS, len(labels)))
    columns = [np.sort(w)[np.arange(_LEVELS) * len(w) // _LEVELS] for w in windows]
    return np.stack(columns, axis=1)


def _label_samples(axes: "Axes", num_samples: int) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_xlim(0, num_samples)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=10, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="x", labelsize=9, color="0.5", labelcolor="0.25")
    axes.set_xlabel("samples", fontsize=10, color="0.25")
