"""What diagrams are made of: boxes, arrows and words on a page measured in inches."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""Inches from the left edge and from the upper edge."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""

INK, FAINT, RULE, GROUND = "#1b2230", "#5b6575", "#a8b1be", "#f3f5f8"
ACCENT, TINT = "#c24e00", "#fff3e9"
"""The colours of the report's page."""
BODY, HEAD, TITLE, FORMULA = 9.5, 10.5, 12.0, 11.0
"""Sizes of words, in points; a formula's indices are smaller than itself."""


class Sheet:
    """A page to draw on.

    Args:
        width: Inches.
        height: Inches.

    Attributes:
        figure: The page, to be saved.

    Example:
        >>> sheet = Sheet(4, 3)
        >>> sheet.box((1, 1, 2, 2))
        >>> sheet.words((1.5, 1.5), "student", centred=True)
        >>> sheet.figure.get_size_inches().tolist()
        [4.0, 3.0]
    """

    figure: "Figure"
    _axes: "Axes"

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(width, height))
        FigureCanvasAgg(self.figure)
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set(xlim=(0, width), ylim=(height, 0))
        self._axes.set_axis_off()

    def box(self, box: Box, fill: str = "white", edge: str = RULE) -> None:
        """A rectangle with round corners."""
        from matplotlib.patches import FancyBboxPatch

        left, top, right, bottom = box
        corners = "round,pad=0,rounding_size=0.07"
        size = right - left, bottom - top
        self._axes.add_patch(
            FancyBboxPatch((left, top), *size, boxstyle=corners, facecolor=fill, edgecolor=edge)
        )

    def words(
        self,
        at: Point,
        text: str,
        *,
        size: float = BODY,
        colour: str = INK,
        bold: bool = False,
        centred: bool = False,
    ) -> None:
        """One line that begins at a point, or has it in its middle; formulae stand between $."""
        self._axes.text(
            *at,
            text,
            fontsize=size,
            color=colour,
            fontweight="bold" if bold else "normal",
            ha="center" if centred else "left",
            va="center_baseline",
        )

    def arrow(self, points: Sequence[Point], colour: str = INK) -> None:
        """Along straight lines from the first point to the head at the last."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        self._axes.add_patch(
            FancyArrowPatch(
                path=Path(points),
                arrowstyle="-|>,head_length=5,head_width=2.6",
                color=colour,
                fill=True,
                linewidth=1.4,
                joinstyle="miter",
            )
        )

    def tile(self, at: Point, side: float, mark: str, ground: str) -> None:
        """A square, its upper left corner at a point, with one of Matplotlib's markers in it."""
        from matplotlib.patches import Rectangle

        x, y = at
        self._axes.add_patch(
            Rectangle(at, side, side, facecolor=ground, edgecolor=RULE, linewidth=0.8)
        )
        self._axes.plot(
            x + side / 2, y + side / 2, mark, markersize=30 * side, color=INK, markeredgewidth=0
        )
