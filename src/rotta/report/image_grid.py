"""Images side by side, with what was done to them written along the edges."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from rotta.atomic import replacing

_CELL, _LEFT, _RIGHT, _TOP = 0.8, 0.9, 0.5, 1.05  # inches


def draw_grid(
    images: Sequence[Sequence[Tensor]],
    path: Path,
    *,
    columns: Sequence[str],
    rows: Sequence[str],
) -> None:
    """Draw rows of images.

    Args:
        images: Rows of RGB images in [0, 1], (3, H, W) each.
        path: Ends in ``.png`` or ``.svg``. The file is complete or not there.
        columns: What each column shows, written above it.
        rows: What each row shows, written beside it.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure

    width = _LEFT + _CELL * len(columns) + _RIGHT
    height = _TOP + _CELL * len(rows)
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    for i, row in enumerate(images):
        for j, image in enumerate(row):
            left, bottom = _LEFT + j * _CELL, height - _TOP - (i + 1) * _CELL
            box = (left / width, bottom / height, 0.95 * _CELL / width, 0.95 * _CELL / height)
            axes = figure.add_axes(box)
            axes.imshow(image.permute(1, 2, 0).cpu().numpy(), interpolation="nearest")
            axes.set_axis_off()
            if i == 0:
                axes.set_title(columns[j], fontsize=9, rotation=40, ha="left", x=0.2)
        beside = (_LEFT - 0.1) / width, (height - _TOP - (i + 0.5) * _CELL) / height
        figure.text(*beside, rows[i], ha="right", va="center", fontsize=9)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=120)
