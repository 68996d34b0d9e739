"""Pieces of SVG: a frame with axes, curves, areas, and the stays of a stream behind them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LETTER = 0.56  # mean width of a letter, in sizes of its font
_FONT, _SMALL_FONT = 12, 11  # pixels of the picture, as in the page's style sheet
_LINE = 15


@dataclass(frozen=True)
class Stay:
    """A stretch of the stream that lies in one domain."""

    name: str
    start: float
    end: float
    """In samples seen."""


@dataclass(frozen=True)
class Frame:
    """Where a chart's plot lies, and which values its edges have; lengths in pixels."""

    width: float
    height: float
    x_max: float
    y_max: float
    bottom: float
    left: float = 44
    right: float = 8
    top: float = 10

    def x(self, value: float) -> float:
        """From samples to pixels."""
        return self.left + (self.width - self.left - self.right) * value / self.x_max

    def y(self, value: float) -> float:
        """From a value to pixels."""
        return self.base - (self.base - self.top) * value / self.y_max

    @property
    def base(self) -> float:
        """The y of the lower edge of the plot."""
        return self.height - self.bottom


def document(width: float, height: float, title: str, description: str, body: Markup) -> Markup:
    """An ``svg`` element that says what it shows to whoever cannot see it."""
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>{}</svg>'
    ).format(number(width), number(height), title, description, body)


def joined(parts: Iterable[Markup]) -> Markup:
    """One after the other."""
    return Markup("").join(parts)


def number(value: float) -> str:
    """Short: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, css: str, *, turned: bool = False) -> Markup:
    """Words at a place; ``turned`` reads upwards."""
    turn = f"rotate(-90 {number(x)} {number(y)})" if turned else ""
    return Markup('<text x="{}" y="{}" class="{}"{}>{}</text>').format(
        number(x), number(y), css, Markup(' transform="{}"').format(turn) if turn else "", words
    )


def shortened(words: str, room: float) -> str:
    """As much small text as fits into ``room`` pixels, with an ellipsis if that is not all.

    Example:
        >>> shortened("a long name", 100), shortened("a long name", 40)
        ('a long name', 'a lon…')
    """
    letters = max(1, int(room / (_LETTER * _SMALL_FONT)))
    return words if len(words) <= letters else words[: letters - 1].rstrip() + "…"


def text_width(words: str, font: float = _FONT) -> float:
    """About how wide words are, in pixels."""
    return len(words) * _LETTER * font


def curve(xs: Floats, ys: Floats) -> str:
    """The ``d`` of a path through points, broken where a y is NaN; a lone point is a dot."""
    parts, pen_down = [], False
    for x, y in zip(xs, ys, strict=True):
        if math.isnan(y):
            pen_down = False
            continue
        place = f"{number(x)} {number(y)}"
        parts.append(f"L{place}" if pen_down else f"M{place}h0")
        pen_down = True
    return "".join(parts)


def area(xs: Floats, lower: Floats, upper: Floats) -> str:
    """The ``d`` of what lies between two curves, without the places where one is NaN."""
    there = ~(np.isnan(lower) | np.isnan(upper))
    xs, lower, upper = xs[there], lower[there], upper[there]
    if not len(xs):
        return ""
    around = zip([*xs, *xs[::-1]], [*upper, *lower[::-1]], strict=True)
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in around) + "Z"


def ticks(highest: float, about: int = 5) -> list[float]:
    """Round values from 0 on, the last at or above ``highest``.

    Example:
        >>> ticks(43.0)
        [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
        >>> ticks(0.9)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = max(highest, 1e-9) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [float(f"{i * step:.10g}") for i in range(math.ceil(highest / step - 1e-9) + 1)]


def y_axis(frame: Frame, values: Sequence[float], unit: str = "") -> Iterator[Markup]:
    """Lines across the plot, each with its value."""
    for value in values:
        y = number(frame.y(value))
        yield Markup('<path class="grid" d="M{} {}H{}"/>').format(
            number(frame.left), y, number(frame.width - frame.right)
        )
        yield text(frame.left - 6, frame.y(value) + 4, f"{value:g}{unit}", "end")


def x_axis(frame: Frame) -> Iterator[Markup]:
    """Numbers of samples, along the lower edge of the picture."""
    y, end = frame.height - 4, frame.width - frame.right
    for value in ticks(frame.x_max, about=6 if frame.width > 600 else 5)[1:]:
        words = f"{value:,.0f}"
        if frame.x(value) + text_width(words) / 2 < end - text_width("samples") - _FONT:
            yield text(frame.x(value), y, words, "middle faint")
    yield text(end, y, "samples", "end faint")


def stays_behind(frame: Frame, stays: Sequence[Stay]) -> Iterator[Markup]:
    """Every other stay shaded, over the height of the plot."""
    for stay in stays[::2]:
        x, end = frame.x(stay.start), frame.x(stay.end)
        yield Markup('<rect class="stay" x="{}" y="{}" width="{}" height="{}"/>').format(
            number(x), number(frame.top), number(end - x), number(frame.base - frame.top)
        )


class StayNames:
    """The names of the stays beneath a plot: level if they fit, else upright, else left out.

    Args:
        stays: In the order of the stream.
        plot_width: What all of them share, in pixels.

    Attributes:
        height: What the names take, in pixels.
    """

    _ENOUGH, _LONGEST = 80, 100  # pixels of a level and of an upright name; the rest is cut

    def __init__(self, stays: Sequence[Stay], plot_width: float) -> None:
        self._stays = stays
        total = stays[-1].end if stays else 1
        rooms = [plot_width * (stay.end - stay.start) / total for stay in stays]
        widths = [text_width(stay.name, _SMALL_FONT) for stay in stays]
        self._turned = any(
            min(self._ENOUGH, width) + 4 > room for width, room in zip(widths, rooms, strict=True)
        )
        self._drawn = bool(stays) and (not self._turned or min(rooms) >= _LINE)
        needed = min(self._LONGEST, max(widths, default=0)) + 8 if self._turned else _LINE + 2
        self.height = needed if self._drawn else 0

    def draw(self, frame: Frame) -> Iterator[Markup]:
        """One name in the middle below each stay."""
        for stay in self._stays if self._drawn else ():
            middle = frame.x((stay.start + stay.end) / 2)
            wide = frame.x(stay.end) - frame.x(stay.start) - 4
            words = shortened(stay.name, self._LONGEST if self._turned else wide)
            if self._turned:
                yield text(middle + 4, frame.base + 6, words, "small end", turned=True)
            else:
                yield text(middle, frame.base + _LINE, words, "small middle")
