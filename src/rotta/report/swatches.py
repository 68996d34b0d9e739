"""Colours for classes, and the lines of coloured squares that say which is which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Colours = NDArray[np.float64]
"""One RGB colour per row, each channel in [0, 1], (K, 3)."""

_FONT_SIZE = 9.0
# Inches.
_LINE, _SQUARE, _BESIDE_SQUARE, _BESIDE_NAME = 0.24, 0.13, 0.07, 0.22


def class_colours(num_classes: int) -> Colours:
    """One colour per class: well apart for up to 20, else along the rainbow."""
    import matplotlib as mpl

    if num_classes <= 20:
        table = mpl.colormaps["tab10" if num_classes <= 10 else "tab20"]
        return np.array([table(index)[:3] for index in range(num_classes)])
    return np.array(mpl.colormaps["turbo"](np.linspace(0.03, 0.97, num_classes)))[:, :3]


def text_width(text: str, font_size: float) -> float:
    """Width of one line of text in the default font, in inches; ``font_size`` in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    points, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(size=font_size), ismath=False
    )
    return float(points) / 72


@dataclass(frozen=True, eq=False)
class Swatches:
    """A legend of squares and names, in as many lines as it needs.

    Attributes:
        names: What to write, at least one.
        colours: Of the squares, (K, 3).
        width: What there is, in inches.
    """

    names: Sequence[str]
    colours: Colours
    width: float

    @property
    def height(self) -> float:
        """Inches."""
        *_, (last_line, _) = self._places()
        return (last_line + 1) * _LINE

    def draw(self, axes: "Axes") -> None:
        """Fill ``axes``, which are ``width`` × ``height`` inches, from the upper left."""
        axes.set(xlim=(0, self.width), ylim=(self.height, 0))
        axes.set_axis_off()
        for name, colour, (line, x) in zip(self.names, self.colours, self._places(), strict=True):
            y = (line + 0.5) * _LINE
            axes.bar(x, _SQUARE, _SQUARE, y - _SQUARE / 2, align="edge", color=tuple(colour))
            x += _SQUARE + _BESIDE_SQUARE
            axes.text(x, y, name, fontsize=_FONT_SIZE, va="center_baseline", color="0.2")

    def _places(self) -> Iterator[tuple[int, float]]:
        """Line and left edge of each name with its square, filled like words on a page."""
        line, x = 0, 0.0
        for name in self.names:
            width = _SQUARE + _BESIDE_SQUARE + text_width(name, _FONT_SIZE)
            if x > 0 and x + width > self.width:
                line, x = line + 1, 0.0
            yield line, x
            x += width + _BESIDE_NAME
