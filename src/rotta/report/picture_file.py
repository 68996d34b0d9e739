"""Pictures of matplotlib as files: complete or not there, and the same bytes every time."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rotta.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_path(path: str | Path) -> Path:
    """The path of a picture.

    Raises:
        ValueError: It ends neither in .png nor in .svg.

    Example:
        >>> picture_path("a.PNG").suffix
        '.PNG'
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise ValueError(f"cannot draw to {path.name!r}: end the name in .png or .svg")
    return path


def save_picture(path: Path, drawn: "Callable[[], Figure]", dpi: int) -> None:
    """Write a figure.

    Args:
        path: As :func:`picture_path` returns it.
        drawn: Makes the figure.
        dpi: Dots per inch of a PNG.
    """
    import matplotlib as mpl  # slow to import

    kind = path.suffix.lower()[1:]
    metadata = {"Date": None} if kind == "svg" else None
    # a fixed salt and no date: what is drawn alike is stored alike
    with mpl.rc_context({"svg.hashsalt": "rotta"}), replacing(path) as temporary:
        drawn().savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
