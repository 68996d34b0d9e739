"""A diagram of RoTTA: what happens to a sample, from the stream to the teacher's next step."""

from collections.abc import Iterable
from pathlib import Path

from rotta.report.diagram import (
    ACCENT,
    FAINT,
    FORMULA,
    GROUND,
    HEAD,
    TINT,
    TITLE,
    Box,
    Point,
    Sheet,
)
from rotta.report.picture_file import picture_path, save_picture

_DPI = 200  # 1,800 pixels, twice what a page shows
_WIDTH, _HEIGHT = 9.0, 7.28  # inches, so that at 900 pixels a point of type is 1.4 pixels
_EDGE = 0.12

Sample = tuple[int, int]
"""Its class and its domain."""
_MARKS, _GROUNDS, _TILE = ("^", "s", "o"), ("#ffffff", "#d6dde7", "#aab6c6"), 0.2
_STREAM: tuple[Sample, ...] = (
    *((0, 0), (0, 0), (0, 0), (1, 0), (1, 0)),
    *((1, 1), (2, 1), (2, 1), (2, 1), (0, 1)),
    *((0, 2), (0, 2), (0, 2), (0, 2)),
)
_BANK: tuple[tuple[Sample, ...], ...] = (
    ((0, 1), (0, 2), (0, 2), (0, 2)),
    ((1, 0), (1, 0), (1, 1)),
    ((2, 1), (2, 1), (2, 1)),
)


def draw_framework(path: str | Path) -> None:
    """Draw how RoTTA predicts, remembers and updates.

    Args:
        path: Ends in ``.png`` or ``.svg``. The file is complete or not there.

    Raises:
        ValueError: Another suffix.

    Example:
        >>> import tempfile
        >>> picture = Path(tempfile.mkdtemp()) / "framework.svg"
        >>> draw_framework(picture)
        >>> picture.exists()
        True
    """
    path = picture_path(path)
    save_picture(path, lambda: _sheet().figure, _DPI)


def _sheet() -> Sheet:
    sheet = Sheet(_WIDTH, _HEIGHT)
    _draw_prediction(sheet)
    _draw_bank(sheet)
    _draw_sampling(sheet)
    _draw_update(sheet)
    _draw_loss(sheet)
    _draw_normalisation(sheet)
    return sheet


def _draw_prediction(sheet: Sheet) -> None:
    _band(sheet, 0.12, 1.72, "1  Predict")
    sheet.words((1.45, 0.34), "every batch, before anything is learnt from it", colour=FAINT)
    sheet.words((0.3, 0.72), "test stream: classes come in runs, domains change")
    _tiles(sheet, (0.3, 0.92), _STREAM)
    for x, name in ((0.8, "fog"), (1.8, "snow"), (2.7, "blur")):
        sheet.words((x, 1.28), name, colour=FAINT, centred=True)
    sheet.arrow([(0.3, 1.5), (3.1, 1.5)], FAINT)
    sheet.words((3.18, 1.5), "time", colour=FAINT)
    sheet.arrow([(3.15, 1.02), (3.9, 1.02)])
    _network(sheet, (3.9, 0.72, 5.55, 1.32), "Teacher")
    sheet.arrow([(5.55, 1.02), (6.2, 1.02)])
    sheet.box((6.2, 0.56, 8.7, 1.48))
    sheet.words((6.34, 0.82), "prediction")
    sheet.words((7.25, 0.82), r"$\hat{y} = \mathrm{argmax}_c\; p_c$", size=FORMULA)
    sheet.words((6.34, 1.2), "uncertainty")
    sheet.words((7.25, 1.2), r"$U = -\sum_c\, p_c\, \log\, p_c$", size=FORMULA)


def _draw_bank(sheet: Sheet) -> None:
    _band(sheet, 1.84, 3.62, "2  Remember")
    sheet.words((1.7, 2.06), "every sample, under its predicted class", colour=FAINT)
    sheet.box((0.3, 2.36, 3.1, 3.46))
    sheet.words((0.42, 2.62), "Memory bank", size=HEAD, bold=True)
    sheet.words((0.42, 2.9), r"$N = 64$ places,")
    sheet.words((0.42, 3.1), r"$C$ classes")
    for row, samples in enumerate(_BANK):
        _tiles(sheet, (1.98, 2.53 + 0.28 * row), samples)


def _draw_sampling(sheet: Sheet) -> None:
    """Category-balanced sampling with timeliness and uncertainty (Eq. 6)."""
    sheet.arrow([(7.1, 1.48), (7.1, 2.2)])
    sheet.words((7.22, 2.02), r"$x$, $\hat{y}$, $U$ and age $A = 0$")
    sheet.box((3.9, 2.2, 8.7, 3.5))
    sheet.words((4.04, 2.42), "CSTU: who stays", size=HEAD, bold=True)
    rules = (
        ("category-balanced", r"about $N/C$ places for each class"),
        ("timeliness", "the old go first"),
        ("uncertainty", "the uncertain go first"),
    )
    for row, (name, rule) in enumerate(rules):
        y = 2.68 + 0.2 * row
        sheet.words((4.04, y), name)
        sheet.words((5.5, y), rule, colour=FAINT)
    sheet.words((4.04, 3.3), "out: the highest")
    score = r"$H = \lambda_t\, / \,(1 + e^{-A/N}) \,+\, \lambda_u\, U\, / \log\, C$"
    sheet.words((5.5, 3.3), score, size=FORMULA)
    sheet.arrow([(3.9, 2.9), (3.1, 2.9)])
    sheet.words((3.54, 2.76), "kept", centred=True)


def _draw_update(sheet: Sheet) -> None:
    """The bank's views, both networks, and what flows between these (Eq. 11)."""
    _band(sheet, 3.74, 6.42, "3  Update")
    sheet.words((1.68, 3.96), "after every 64 samples, with the whole bank", colour=FAINT)
    for y, name, what in ((4.66, "weak view", "as stored"), (5.86, "strong view", "augmented")):
        sheet.arrow([(1.5, 3.46), (1.5, y), (1.8, y)])
        sheet.box((1.8, y - 0.3, 3.1, y + 0.3))
        sheet.words((1.92, y - 0.1), name, bold=True)
        sheet.words((1.92, y + 0.12), what, colour=FAINT)
        sheet.arrow([(3.1, y), (3.65, y)])
    sheet.words((4.47, 4.22), "the same as in 1", colour=FAINT, centred=True)
    _network(sheet, (3.65, 4.36, 5.3, 4.96), "Teacher")
    _network(sheet, (3.65, 5.56, 5.3, 6.16), "Student")
    sheet.arrow([(4.0, 5.56), (4.0, 4.96)], ACCENT)
    sheet.words((4.12, 5.16), r"EMA of $\gamma$ and $\beta$", colour=ACCENT)
    teacher_step = r"$\theta_T \leftarrow (1-\nu)\,\theta_T + \nu\,\theta_S$"
    sheet.words((4.12, 5.38), teacher_step, size=FORMULA, colour=ACCENT)


def _draw_loss(sheet: Sheet) -> None:
    """Eqs. 7 to 10."""
    sheet.arrow([(5.3, 4.66), (6.25, 4.66)])
    sheet.words((5.74, 4.5), r"targets $p^T$", centred=True)
    sheet.arrow([(5.3, 5.72), (6.25, 5.72)])
    sheet.words((5.9, 5.56), r"$p^S$", size=FORMULA, centred=True)
    sheet.arrow([(6.25, 6.0), (5.3, 6.0)], ACCENT)
    sheet.words((5.78, 6.2), "gradient", colour=ACCENT, centred=True)
    sheet.box((6.25, 4.36, 8.7, 6.16))
    sheet.words((6.39, 4.6), "Loss", size=HEAD, bold=True)
    mean = r"$L = \dfrac{1}{N}\, \sum_i\, E(A_i)\; \mathrm{CE}(p^T_i,\, p^S_i)$"
    sheet.words((6.39, 4.98), mean, size=FORMULA)
    sheet.words((6.39, 5.4), r"$E(A) = 1\, / \,(1 + e^{A/N})$", size=FORMULA)
    sheet.words((6.39, 5.62), "so the old count less", colour=FAINT)
    sheet.words((6.39, 5.98), r"trains the student's $\gamma$ and $\beta$", colour=ACCENT)


def _draw_normalisation(sheet: Sheet) -> None:
    """Eqs. 4 and 5."""
    sheet.box((_EDGE, 6.54, _WIDTH - _EDGE, _HEIGHT - _EDGE), TINT, TINT)
    _sign(sheet, (0.62, 6.85))
    sheet.words(
        (1.05, 6.75), "robust normalisation in place of every BatchNorm: global statistics,"
    )
    sheet.words((1.05, 6.97), "which only an update moves, by a small step towards the bank's")
    mean = r"$\mu \leftarrow (1-\alpha)\,\mu + \alpha\,\mu_{\mathrm{bank}}$"
    variance = r"$\sigma^2 \leftarrow (1-\alpha)\,\sigma^2 + \alpha\,\sigma^2_{\mathrm{bank}}$"
    sheet.words((6.39, 6.73), mean, size=FORMULA)
    sheet.words((6.39, 6.98), variance, size=FORMULA)


def _band(sheet: Sheet, top: float, bottom: float, title: str) -> None:
    sheet.box((_EDGE, top, _WIDTH - _EDGE, bottom), GROUND, GROUND)
    sheet.words((0.3, top + 0.22), title, size=TITLE, bold=True)


def _network(sheet: Sheet, box: Box, name: str) -> None:
    sheet.box(box)
    left, top, right, bottom = box
    middle = (top + bottom) / 2
    sheet.words((left + 0.12, middle), name, size=HEAD, bold=True)
    _sign(sheet, (right - 0.4, middle))


def _sign(sheet: Sheet, centre: Point) -> None:
    """Of robust normalisation layers."""
    x, y = centre
    sheet.box((x - 0.28, y - 0.13, x + 0.28, y + 0.13), TINT, ACCENT)
    sheet.words(centre, "RBN", colour=ACCENT, bold=True, centred=True)


def _tiles(sheet: Sheet, at: Point, samples: Iterable[Sample]) -> None:
    """A row of samples: the mark is the class, the ground is the domain."""
    x, y = at
    for number, (label, domain) in enumerate(samples):
        sheet.tile((x + number * _TILE, y), _TILE, _MARKS[label], _GROUNDS[domain])
