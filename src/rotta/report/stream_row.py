"""One stream as a row of a picture: its classes, its severity, and its domains beneath."""

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rotta.report.swatches import Colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WINDOWS, _LEVELS = 1200, 240  # resolution of a row
_HIGHEST_SEVERITY = 5
_MOST_BORDERS = 21  # denser lines would hide what they separate


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

    @property
    def arrival(self) -> str:
        """How the samples arrive."""

    @property
    def severities(self) -> NDArray[np.int64] | None:
        """Severity of each sample, (N,)."""


def draw_classes(axes: "Axes", timeline: Timeline, colours: Colours, longest: int) -> None:
    """Draw the classes, and a line for the severity where it changes.

    Args:
        axes: Their x axis is made to count ``longest`` samples.
        timeline: Of that many samples or fewer.
        colours: Of the classes, (C, 3).
        longest: Samples of the longest row.
    """
    _draw_windows(axes, timeline.labels, colours, longest)
    borders = np.flatnonzero(np.diff(timeline.domains)) + 1
    if len(borders) <= _MOST_BORDERS:
        axes.vlines(borders, 0, 1, colors="white", linewidth=1.0)
    severities = timeline.severities
    if severities is not None and np.ptp(severities):
        line = (severities - 0.5) / _HIGHEST_SEVERITY
        for colour, width in (("white", 2.6), ("0.1", 1.0)):  # seen on every colour
            axes.plot(line, color=colour, linewidth=width)


def draw_domains(axes: "Axes", timeline: Timeline, colours: Colours, longest: int) -> None:
    """Draw the domains like :func:`draw_classes`; they may be interleaved."""
    _draw_windows(axes, timeline.domains, colours, longest)


def label(axes: "Axes", timeline: Timeline, *, with_arrival: bool) -> None:
    """Write left of a row what tells it from the others."""
    delta = "i.i.d." if math.isinf(timeline.delta) else f"δ = {timeline.delta:g}"
    text = f"{timeline.arrival}\n{delta}" if with_arrival else delta
    axes.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=11, labelpad=8)


def fill_windows(values: NDArray[np.int64], most: int = _WINDOWS) -> NDArray[np.int64]:
    """The value at each height of each window, (levels, windows): its values, sorted.

    Windows are drawn equally wide, so where they begin is rounded for each by itself.
    """
    count = min(most, len(values))
    windows = np.split(values, np.arange(1, count) * len(values) // count)
    columns = [np.sort(w)[np.arange(_LEVELS) * len(w) // _LEVELS] for w in windows]
    return np.stack(columns, axis=1)


def _draw_windows(axes: "Axes", values: NDArray[np.int64], colours: Colours, longest: int) -> None:
    most = math.ceil(_WINDOWS * len(values) / longest)  # as wide as those of the longest row
    axes.imshow(
        colours[fill_windows(values, most)],
        aspect="auto",
        interpolation="nearest",
        origin="lower",
        extent=(0, len(values), 0, 1),
    )
    axes.autoscale(False)
    axes.set(xlim=(0, longest), ylim=(0, 1), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
