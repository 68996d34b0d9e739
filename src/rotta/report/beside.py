"""Tables of what was measured beside what the paper prints: Markdown, LaTeX, CSV."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rotta.report.escaping import latex_text, markdown_text
from rotta.report.tables import ranked

_NARROW = 3  # columns that leave room for three values side by side
_CROWDED = 8  # more columns than this have no room for the spread of each value
_MISSING = "missing"


@dataclass(frozen=True)
class Entry:
    """One error, in percent: what was measured and what the paper prints."""

    measured: float | None = None
    """Mean over the seeds; none (or NaN) if it is missing."""
    std: float | None = None
    """Over the seeds."""
    seeds: int = 0
    printed: float | None = None
    applies: bool = True
    """Whether there is something to measure, as there is not from a domain to itself."""

    @property
    def value(self) -> float | None:
        """What was measured, none if there is nothing."""
        return None if self.measured is None or math.isnan(self.measured) else self.measured

    def difference(self, decimals: int) -> float | None:
        """Measured less printed, as it follows from the two when they are shown rounded.

        Example:
            >>> Entry(measured=26.64, printed=25.2).difference(1)
            1.4
        """
        if self.value is None or self.printed is None:
            return None
        return round(round(self.value, decimals) - round(self.printed, decimals), decimals)


@dataclass(frozen=True)
class Grid:
    """Entries in rows and columns."""

    name: str
    """Stem of its files."""
    title: str
    corner: str
    """Heading of the first column."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    """A heading and one entry per column, each."""
    best: bool = True
    """Whether rows compete, so that the best of each column is bold."""
    note: str = ""
    """What holds for all of it and must not get lost, such as that it is over few images."""

    def __post_init__(self) -> None:
        for row, entries in self.rows:
            assert len(entries) == len(self.columns), f"row {row!r} of {self.title!r}"

    @property
    def printed(self) -> bool:
        """Whether the paper prints anything of it."""
        return any(entry.printed is not None for _, entries in self.rows for entry in entries)


def to_markdown(grid: Grid) -> str:
    """A table under its title with the note, the best of what was measured bold.

    Up to three columns have printed, measured and difference side by side; of more columns, what
    is printed and the difference are smaller lines of their own. Crowded tables state the spread
    over the seeds in their last column only, the average; the CSV has all of it.

    Example:
        >>> rows = ("BN", (Entry(75.2, printed=73.4),)), ("RoTTA", (Entry(25.31, 0.1, 3, 25.2),))
        >>> print(to_markdown(Grid("average", "CIFAR-10-C", "method", ("average",), rows)), end="")
        **CIFAR-10-C**
        <BLANKLINE>
        | method | average, printed | average, measured | difference |
        | :-- | --: | --: | --: |
        | BN | 73.4 | 75.2 | +1.8 |
        | RoTTA | 25.2 | **25.3 ± 0.1 (3)** | +0.1 |
    """
    small = "<sub>{}</sub>"
    markup = _Markup(markdown_text, best="**{}**", small=small, under=small, plus_minus=" ± ")
    heads = [markdown_text(column) for column in grid.columns]
    if _side_by_side(grid):
        heads = [h for c in heads for h in (f"{c}, printed", f"{c}, measured", "difference")]
    lines = [
        [markdown_text(grid.corner), *heads],
        [":--", *["--:"] * len(heads)],
        *_lines(grid, markup),
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"**{markdown_text(titled(grid.title, grid.note))}**\n\n{table}"


def to_latex(grid: Grid) -> str:
    r"""A ``tabular`` with rules of booktabs, arranged as :func:`to_markdown` does.

    Example:
        >>> rows = (("RoTTA", (Entry(25.31, 0.1, 3, 25.4),)),)
        >>> print(to_latex(Grid("average", "CIFAR-10-C", "method", ("average",), rows)), end="")
        % CIFAR-10-C
        % \usepackage{booktabs,graphicx}
        \begin{tabular}{l*{3}{r}}
        \toprule
         & \multicolumn{3}{c}{average} \\
        \cmidrule(lr){2-4}
        method & printed & measured & difference \\
        \midrule
        RoTTA & 25.4 & 25.3 $\pm$ 0.1 (3) & $-$0.1 \\
        \bottomrule
        \end{tabular}
    """
    markup = _Markup(
        latex_text,
        best=r"\textbf{{{}}}",
        small=r"\footnotesize {}",
        under=r"\quad\footnotesize {}",
        plus_minus=r" $\pm$ ",
        minus="$-$",
    )
    values = len(grid.columns) * (3 if _side_by_side(grid) else 1)
    rows = [" & ".join(line) + r" \\" for line in _lines(grid, markup)]
    lines = [
        f"% {latex_text(titled(grid.title, grid.note))}",
        r"% \usepackage{booktabs,graphicx}",
        rf"\begin{{tabular}}{{l*{{{values}}}{{r}}}}",
        r"\toprule",
        *_latex_head(grid),
        r"\midrule",
        *rows,
        r"\bottomrule",
        *_latex_note(grid, 1 + values),
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def to_csv(grid: Grid) -> str:
    """One line per entry, to two decimals; what is missing is empty.

    Example:
        >>> print(to_csv(Grid("a", "A", "method", ("fog",), (("BN", (Entry(75.256),)),))), end="")
        row,column,printed,measured,std,seeds,difference,note
        BN,fog,,75.26,,0,,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "column", "printed", "measured", "std", "seeds", "difference", "note"])
    for row, entries in grid.rows:
        for column, entry in zip(grid.columns, entries, strict=True):
            before = map(_two_decimals, (entry.printed, entry.value, entry.std))
            after = entry.seeds, _two_decimals(entry.difference(2))
            writer.writerow([row, column, *before, *after, grid.note])
    return text.getvalue()


def titled(title: str, note: str) -> str:
    """A title with what must not get lost.

    Example:
        >>> titled("Average error, %", "quick: 2,000 images per domain")
        'Average error, % (quick: 2,000 images per domain)'
    """
    return f"{title} ({note})" if note else title


def _latex_note(grid: Grid, columns: int) -> list[str]:
    if not grid.note:
        return []
    return [rf"\multicolumn{{{columns}}}{{l}}{{\footnotesize {latex_text(grid.note)}}} \\"]


def _two_decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


@dataclass(frozen=True)
class _Markup:
    """How a format writes what the tables of all formats have in common."""

    escape: Callable[[str], str]
    best: str
    small: str
    under: str
    """Like ``small``, for the heading of a line that belongs to the one above."""
    plus_minus: str
    minus: str = "−"

    def measured(self, entry: Entry, best: bool, *, seeds: bool = True, std: bool = True) -> str:
        if entry.value is None:
            return _MISSING if entry.applies else ""
        spread = f"{self.plus_minus}{entry.std:.1f}" if std and entry.std is not None else ""
        of = f" ({entry.seeds})" if seeds and entry.seeds > 1 else ""
        text = f"{entry.value:.1f}{spread}{of}"
        return self.best.format(text) if best else text

    def difference(self, entry: Entry) -> str:
        value = entry.difference(1)
        if not value:  # no sign for a zero
            return "" if value is None else "0.0"
        return f"{value:+.1f}".replace("-", self.minus)


def _side_by_side(grid: Grid) -> bool:
    return len(grid.columns) <= _NARROW and grid.printed


def _lines(grid: Grid, markup: _Markup) -> Iterator[list[str]]:
    """The cells of the table's body, its first column included."""
    for (row, entries), best in zip(grid.rows, _best(grid), strict=True):
        if _side_by_side(grid):
            threes = zip(entries, best, strict=True)
            cells = [c for entry, is_best in threes for c in _three(entry, is_best, markup)]
            yield [markup.escape(row), *cells]
        else:
            yield from _wide(row, entries, best, markup)


def _three(entry: Entry, best: bool, markup: _Markup) -> tuple[str, str, str]:
    return _printed(entry), markup.measured(entry, best), markup.difference(entry)


def _wide(
    row: str, entries: Sequence[Entry], best: Sequence[bool], markup: _Markup
) -> Iterator[list[str]]:
    """The line of what was measured, and smaller ones where something is printed."""
    numbers = {entry.seeds for entry in entries if entry.value is not None}
    # where all are alike and many, the row's heading says it for them
    alike = len(numbers) == 1 and len(entries) > _NARROW
    seeds = next(iter(numbers)) if alike else 0
    heading = f"{row}, {seeds} seeds" if seeds > 1 else row
    last = len(entries) - 1
    yield [
        markup.escape(heading),
        *(
            markup.measured(
                entry, best[i], seeds=not alike, std=len(entries) <= _CROWDED or i == last
            )
            for i, entry in enumerate(entries)
        ),
    ]
    for name, text in (("printed", _printed), ("difference", markup.difference)):
        cells = [markup.small.format(text(e)) if text(e) else "" for e in entries]
        if any(cells):
            yield [markup.under.format(name), *cells]


def _printed(entry: Entry) -> str:
    return "" if entry.printed is None else f"{entry.printed:.1f}"


def _best(grid: Grid) -> list[list[bool]]:
    """Of each entry, whether it is shown as the best of its column, (rows, columns)."""
    columns = [ranked(e[i].value for _, e in grid.rows) for i in range(len(grid.columns))]
    return [
        [grid.best and cells[row].rank == 1 for cells in columns] for row in range(len(grid.rows))
    ]


def _latex_head(grid: Grid) -> list[str]:
    corner, names = latex_text(grid.corner), [latex_text(column) for column in grid.columns]
    if not _side_by_side(grid):
        turned = names if len(names) <= _NARROW else [rf"\rotatebox{{70}}{{{n}}}" for n in names]
        return [" & ".join([corner, *turned]) + r" \\"]
    rules = [rf"\cmidrule(lr){{{2 + 3 * i}-{4 + 3 * i}}}" for i in range(len(names))]
    return [
        " & ".join(["", *(rf"\multicolumn{{3}}{{c}}{{{name}}}" for name in names)]) + r" \\",
        "".join(rules),
        " & ".join([corner, *["printed", "measured", "difference"] * len(names)]) + r" \\",
    ]
