"""Figures of the methods' errors over a parameter: lines with their names at the end, or bars."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rotta.report.beside import Entry
from rotta.report.names import emphasised, method_name
from rotta.report.picture_file import picture_path, save_picture
from rotta.report.series import colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

KINDS = ("lines", "bars")
# Those of the page's style sheet in the light, by the numbers that `series.colours` gives.
PALETTE = (
    *("#d55e00", "#6b7280", "#0072b2", "#00875f", "#8e44ad"),
    *("#8a6d00", "#2e2585", "#c2408a", "#0f8f9c", "#7a4a2b"),
)
_MARKERS = "os^Dv<>PX*"  # a second way to tell lines apart
_DPI = 200  # 1,800 pixels wide, so still sharp at half the size
# Lengths in inches.
_WIDTH, _PLOT_HEIGHT = 9.0, 3.4
_LEFT, _EDGE, _BELOW, _TO_NAMES = 0.75, 0.12, 0.5, 0.65
_FONT, _SMALL = 11, 9.5  # points
_LETTER = 0.6 * _FONT / 72  # names have few letters that are wider
_LINE = 1.4 * _FONT / 72
_TITLE_LETTERS, _NOTE_LETTERS = 88, 110


@dataclass(frozen=True)
class Curves:
    """Errors of methods over a parameter, in percent; what the paper prints is not drawn."""

    name: str
    """Stem of its files."""
    title: str
    x_label: str
    x: tuple[str, ...]
    """Values of the parameter as categories, evenly spaced."""
    lines: tuple[tuple[str, tuple[Entry, ...]], ...]
    """A method's label and one entry per category, each."""
    kind: str = "lines"
    """Or ``bars``: a group per category, a bar per method."""

    def __post_init__(self) -> None:
        assert self.kind in KINDS, self.kind
        for label, entries in self.lines:
            assert len(entries) == len(self.x), f"{label!r} of {self.title!r}"

    @property
    def measured(self) -> bool:
        """Whether there is anything to draw."""
        return any(_there(entries) for _, entries in self.lines)


def draw_curves(curves: Curves, path: str | Path) -> None:
    """Draw what was measured; what is missing leaves a gap, and is named.

    Args:
        curves: At least one entry is measured.
        path: Ends in ``.png`` or ``.svg``. The file is complete or not there.

    Raises:
        ValueError: Nothing to draw, or another suffix.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "delta.svg"
        >>> lines = (("rotta", (Entry(25.2, 0.1, 3), Entry(26.4, 0.2, 3))),)
        >>> draw_curves(Curves("delta", "CIFAR-10-C", "δ", ("1", "0.1"), lines), path)
        >>> path.exists()
        True
    """
    path = picture_path(path)
    if not curves.measured:
        raise ValueError(f"nothing of {curves.title!r} is measured: run its experiment first")
    save_picture(path, partial(figure, curves), _DPI)


@dataclass(frozen=True, eq=False)
class _Line:
    """How one method is drawn."""

    name: str
    colour: str
    marker: str
    strong: bool
    values: Floats
    """NaN where nothing is measured, (X,)."""
    spread: Floats
    """NaN where there is none, (X,)."""
    style: str = "-"


def figure(curves: Curves) -> "Figure":
    """What :func:`draw_curves` saves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = _drawn(curves) + (_printed(curves) if curves.kind == "lines" else [])
    title = textwrap.wrap(curves.title, _TITLE_LETTERS)
    missing = _missing_note(curves)
    right = max(len(line.name) for line in lines) * _LETTER + _TO_NAMES
    across = _WIDTH - _LEFT - right
    names = [textwrap.wrap(name, _letters(across / len(curves.x))) for name in curves.x]
    above = _EDGE + len(title) * _LINE + 0.15
    below = _BELOW + (max(map(len, names)) + len(missing)) * _LINE
    plot = max(_PLOT_HEIGHT, len(lines) * _LINE)
    height = above + plot + below

    drawing = Figure(figsize=(_WIDTH, height))
    FigureCanvasAgg(drawing)
    axes = drawing.add_axes((_LEFT / _WIDTH, below / height, across / _WIDTH, plot / height))
    _frame(axes, curves, ["\n".join(name) for name in names])
    if curves.kind == "lines":
        _draw_lines(axes, lines, len(curves.x))
        _name_lines(axes, lines, _LINE / plot)
    else:
        _draw_bars(axes, lines)
        _legend(axes)
    left = _LEFT / _WIDTH
    drawing.text(left, 1 - _EDGE / height, "\n".join(title), fontsize=_FONT + 1, va="top")
    note = "\n".join(missing)
    drawing.text(left, _EDGE / height, note, fontsize=_SMALL, color="0.35", va="bottom")
    return drawing


def spaced(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights between 0 and 1 apart, as little as seems natural, and keep their order.

    Args:
        heights: Rising; at most 1 / ``gap`` + 1 of them.
        gap: Between two neighbours, at least.

    Example:
        >>> [round(height, 2) for height in spaced([0.0, 0.5, 0.5, 0.9], 0.2)]
        [0.0, 0.4, 0.6, 0.9]
    """
    up, down = list(heights), list(heights)
    last = len(heights) - 1
    for i in range(1, len(heights)):
        up[i] = max(up[i], up[i - 1] + gap)
        down[last - i] = min(down[last - i], down[last - i + 1] - gap)
    # the mean of two rows that keep the gap keeps it, and so does the larger or smaller of two
    between = [(a + b) / 2 for a, b in zip(up, down, strict=True)]
    return [min(max(y, i * gap), 1 - (last - i) * gap) for i, y in enumerate(between)]


def _there(entries: Sequence[Entry]) -> bool:
    return any(entry.value is not None for entry in entries)


def _drawn(curves: Curves) -> list[_Line]:
    """The methods with something to draw; colours are those that all of them would have."""
    labels = [label for label, _ in curves.lines]
    colour, strong = colours(labels), emphasised(labels)
    return [
        _Line(
            method_name(label),
            PALETTE[colour[label]],
            _MARKERS[colour[label]],
            label in strong,
            _floats([entry.value for entry in entries]),
            _floats([entry.std if entry.seeds > 1 else None for entry in entries]),
        )
        for label, entries in curves.lines
        if _there(entries)
    ]


def _printed(curves: Curves) -> list[_Line]:
    """What the paper prints of the methods, in grey."""
    nothing = np.full(len(curves.x), np.nan)
    return [
        _Line(
            "printed" if len(curves.lines) == 1 else f"{method_name(label)}, printed",
            "0.5",
            ".",
            False,
            _floats([entry.printed for entry in entries]),
            nothing,
            "--",
        )
        for label, entries in curves.lines
        if any(entry.printed is not None for entry in entries)
    ]


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _missing_note(curves: Curves) -> list[str]:
    """Methods of which there is nothing; values at which there is none; and single gaps."""
    drawn = {label: entries for label, entries in curves.lines if _there(entries)}
    names = [method_name(label) for label, _ in curves.lines if label not in drawn]
    empty = []
    for i, x in enumerate(curves.x):
        gaps = [method_name(label) for label, entries in drawn.items() if entries[i].value is None]
        if len(gaps) == len(drawn):
            empty.append(x)
        else:
            names += [f"{name} at {x}" for name in gaps]
    if empty:
        names.append(f"all at {', '.join(empty)}")
    return textwrap.wrap("missing: " + ", ".join(names), _NOTE_LETTERS) if names else []


def _letters(room: float) -> int:
    """How many fit beneath a category, with a little air."""
    return max(1, int(0.95 * room / _LETTER))


def _frame(axes: "Axes", curves: Curves, names: Sequence[str]) -> None:
    axes.set_xlabel(curves.x_label, fontsize=_FONT)
    axes.set_ylabel("error, %", fontsize=_FONT)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(labelsize=_FONT - 1, color="0.6", labelcolor="0.2")
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.6")


def _draw_lines(axes: "Axes", lines: Sequence[_Line], categories: int) -> None:
    for line in lines:
        axes.errorbar(
            np.arange(categories),
            line.values,
            yerr=line.spread,
            color=line.colour,
            marker=line.marker,
            markersize=7 if line.strong else 5,
            linewidth=3.2 if line.strong else 1.4,
            linestyle=line.style,
            elinewidth=1.2,
            capsize=3,
            zorder=4 if line.strong else 3,
        )
    axes.set_xlim(-0.25, categories - 0.75)
    axes.margins(y=0.06)


def _name_lines(axes: "Axes", lines: Sequence[_Line], gap: float) -> None:
    """Each name beside the plot at the height of its line's end, or as near as others allow."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ends = [int(np.flatnonzero(np.isfinite(line.values))[-1]) for line in lines]
    heights = [
        (line.values[end] - low) / (high - low) for line, end in zip(lines, ends, strict=True)
    ]
    rising = np.argsort(heights, kind="stable")
    places = spaced([heights[i] for i in rising], gap)
    for i, place in zip(rising, places, strict=True):
        line, end = lines[i], ends[i]
        axes.annotate(
            line.name,
            xy=(end, line.values[end]),
            xytext=(1.05, place),
            textcoords="axes fraction",
            va="center",
            color=line.colour,
            fontsize=_FONT,
            fontweight="bold" if line.strong else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.colour,
                "linewidth": 0.7,
                "linestyle": ":",
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


def _draw_bars(axes: "Axes", lines: Sequence[_Line]) -> None:
    width = 0.84 / len(lines)
    for i, line in enumerate(lines):
        places = np.arange(len(line.values)) + (i - (len(lines) - 1) / 2) * width
        axes.bar(
            places,
            line.values,
            width * 0.94,
            label=line.name,
            color=line.colour if line.strong else _faded(line.colour),
            zorder=2,
        )
        axes.errorbar(
            places,
            line.values,
            yerr=line.spread,
            fmt="none",
            ecolor="0.2",
            elinewidth=1,
            capsize=2,
            zorder=3,
        )
    axes.set_xlim(-0.6, len(lines[0].values) - 0.4)


def _faded(colour: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(1 - 0.6 * (1 - part) for part in to_rgb(colour))


def _legend(axes: "Axes") -> None:
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=_FONT,
        handlelength=0.8,
        handletextpad=0.5,
        labelspacing=0.35,
    )
