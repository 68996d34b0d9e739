"""The band beneath a stream that says which domain it is passing through."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rotta.report.swatches import Colours, Swatches, text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FONT_SIZES = (9.0, 7.5)  # points, the preferred first
_LINE = 1.35  # height of a line, in sizes of its font
_MARGIN = 0.02  # inches on either side of a name


class Band:
    """One coloured stretch per stay in a domain, named as its width allows.

    Wide stretches carry their name level, narrow ones upright; where not even that fits, the
    colours are explained in a legend.

    Args:
        domains: Domain of each sample in the order of arrival, (N,).
        names: One per domain; underscores become spaces.
        width: Of the band, in inches.

    Attributes:
        height: Of the band, in inches.
        legend: ``None`` if the names stand in the band.
    """

    def __init__(self, domains: NDArray[np.int64], names: Sequence[str], width: float) -> None:
        borders = np.flatnonzero(np.diff(domains)) + 1
        self._starts = np.concatenate([[0], borders])
        self._lengths = np.diff(self._starts, append=len(domains))
        self._domains = domains[self._starts]
        self._colours = domain_colours(len(names))
        self.legend: Swatches | None = None
        self._fit(names, width, room=width * float(self._lengths.min()) / len(domains))

    def _fit(self, names: Sequence[str], width: float, room: float) -> None:
        """Choose how to name the stretches, of which the narrowest has ``room`` inches."""
        upright = [name.replace("_", " ") for name in names]
        level = [name.replace("_", "\n") for name in names]
        fitting = [size for size in _FONT_SIZES if _width(level, size) + 2 * _MARGIN <= room]
        self._font_size = fitting[0] if fitting else _FONT_SIZES[-1]
        line = _LINE * self._font_size / 72
        if fitting:
            self._texts, self._rotation = level, 0
            self.height = (max(text.count("\n") for text in level) + 1.5) * line
        elif line + 2 * _MARGIN <= room:
            self._texts, self._rotation = upright, 90
            self.height = _width(upright, self._font_size) + line
        else:
            self._texts, self._rotation = [""] * len(names), 0
            self.height = 2 * line
            self.legend = Swatches(upright, self._colours, width)

    def draw(self, axes: "Axes") -> None:
        """Fill ``axes``, whose x axis counts samples."""
        colours = [tuple(colour) for colour in self._colours[self._domains]]
        axes.bar(self._starts, 1, self._lengths, align="edge", color=colours)
        middles = self._starts + self._lengths / 2
        for middle, domain in zip(middles, self._domains, strict=True):
            axes.text(
                middle,
                0.5,
                self._texts[domain],
                fontsize=self._font_size,
                ha="center",
                va="center",
                rotation=self._rotation,
                color="0.15",
                linespacing=1.1,
            )
        axes.set(ylim=(0, 1), yticks=[])
        axes.spines[:].set_visible(False)


def domain_colours(num_domains: int) -> Colours:
    """Light tints on which dark text reads well, far apart for neighbours."""
    from matplotlib.colors import hsv_to_rgb

    hues = np.arange(num_domains) * 0.381966 % 1  # steps of the golden angle never come round
    tints = np.stack([hues, np.full(num_domains, 0.28), np.full(num_domains, 0.95)], axis=1)
    return np.asarray(hsv_to_rgb(tints))


def _width(texts: Sequence[str], font_size: float) -> float:
    """Of the widest line of all, in inches."""
    return max(text_width(line, font_size) for text in texts for line in text.split("\n"))
