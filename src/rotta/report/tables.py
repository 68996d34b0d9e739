"""The paper's comparison table: methods down, domains across, best bold, second underlined."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from rotta.report.escaping import latex_text, markdown_text
from rotta.report.names import domain_name, method_name, short_domain_names
from rotta.results import MethodResult, Result

_MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """One error and its place among those of the column."""

    value: float | None
    """In percent; none if the method never reached the domain."""
    rank: int
    """1 for the best, 2 for the second, else 0. What prints alike ranks alike."""

    @property
    def text(self) -> str:
        """To one decimal, as printed."""
        return _MISSING if self.value is None else f"{self.value:.1f}"


@dataclass(frozen=True)
class Row:
    """One method."""

    label: str
    """As it was asked for: ``note:lr=0.001``."""
    name: str
    """As it is displayed: ``NOTE (lr=0.001)``, or ``BN, 1 of 3 seeds``."""
    cells: tuple[Cell, ...]
    """One per domain."""
    average: Cell
    std: float | None
    """Of the average over the seeds; none for a single seed."""
    ms_per_batch: float


@dataclass(frozen=True)
class ComparisonTable:
    """Errors of methods in domains, for any format to print."""

    domains: tuple[str, ...]
    """As they are called in the result, in the order of the stream."""
    rows: tuple[Row, ...]

    @property
    def headers(self) -> tuple[str, ...]:
        """The domains' names in words."""
        return tuple(domain_name(domain) for domain in self.domains)

    @property
    def short_headers(self) -> tuple[str, ...]:
        """The same for narrow columns."""
        return short_domain_names(self.domains)

    @property
    def values(self) -> list[float]:
        """All errors that there are, averages included."""
        cells = [cell for row in self.rows for cell in (*row.cells, row.average)]
        return [cell.value for cell in cells if cell.value is not None]


def comparison_table(
    result: Result,
    errors_of: Callable[[MethodResult], Mapping[str, float]] = attrgetter("per_domain"),
) -> ComparisonTable:
    """Rank the methods of a run in every domain and on average.

    Args:
        result: Of the run.
        errors_of: What has a column each; classes or visits may stand in for domains.

    Example:
        >>> from rotta.results import MethodResult
        >>> def scored(fog, snow):
        ...     errors = {"fog": fog, "snow": snow}
        ...     return MethodResult((fog + snow) / 2, errors, {}, 1.0, None, {})
        >>> methods = {"bn": scored(30.0, 20.0), "rotta": scored(10.0, 20.0)}
        >>> table = comparison_table(Result(methods, {}))
        >>> [(row.name, row.average.text, row.average.rank) for row in table.rows]
        [('BN', '25.0', 2), ('RoTTA', '15.0', 1)]
        >>> [cell.rank for cell in table.rows[0].cells]
        [2, 1]
    """
    methods = result.methods
    errors = [errors_of(method) for method in methods.values()]
    domains = tuple(dict.fromkeys(domain for own in errors for domain in own))
    columns = [ranked(own.get(domain) for own in errors) for domain in domains]
    averages = ranked(method.average_error for method in methods.values())
    most = max((len(method.seeds) for method in methods.values()), default=0)
    rows = [
        _row(label, method, most, tuple(column[i] for column in columns), averages[i])
        for i, (label, method) in enumerate(methods.items())
    ]
    return ComparisonTable(domains, tuple(rows))


def _row(
    label: str, method: MethodResult, most_seeds: int, cells: tuple[Cell, ...], average: Cell
) -> Row:
    """A method that has run on fewer seeds than others says so in its name."""
    seeds = len(method.seeds)
    fewer = f", {seeds} of {most_seeds} seeds" if seeds < most_seeds else ""
    name = method_name(label) + fewer
    return Row(label, name, cells, average, method.std, method.ms_per_batch)


def ranked(errors: Iterable[float | None]) -> list[Cell]:
    """The cells of a column, none for what is missing; a lone one is neither best nor second."""
    values = [None if error is None or math.isnan(error) else error for error in errors]
    printed = sorted({round(value, 1) for value in values if value is not None})
    ranks = {error: rank for rank, error in enumerate(printed[:2], start=1)}
    if len(values) == 1:
        ranks = {}
    return [Cell(v, 0 if v is None else ranks.get(round(v, 1), 0)) for v in values]


def to_markdown(table: ComparisonTable, title: str = "") -> str:
    """A table for a README: best **bold**, second <u>underlined</u>.

    Args:
        table: The errors.
        title: What they are of, for a line above the table.

    Example:
        >>> row = Row("bn", "BN", (Cell(30.0, 1),), Cell(30.0, 0), 0.25, 4.2)
        >>> print(to_markdown(ComparisonTable(("motion_blur",), (row,))), end="")
        | method | motion blur | average | ms / batch |
        | :-- | --: | --: | --: |
        | BN | **30.0** | 30.0 ± 0.2 | 4.2 |
    """
    styles = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}
    names = [markdown_text(name) for name in table.headers]
    lines = [["method", *names, "average", "ms / batch"], [":--", *["--:"] * (len(names) + 2)]]
    for row in table.rows:
        cells = _styled(row, styles, plus_minus=" ± ")
        lines.append([markdown_text(row.name), *cells, f"{row.ms_per_batch:.1f}"])
    heading = f"Error in percent: {markdown_text(title)}\n\n" if title else ""
    return heading + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_latex(table: ComparisonTable, title: str = "") -> str:
    r"""A ``tabular`` with rules of booktabs; headers are turned, as the paper's are.

    Args:
        table: The errors.
        title: What they are of, for a comment above the table.

    Example:
        >>> row = Row("bn", "BN", (Cell(30.0, 1),), Cell(30.0, 2), 0.25, 4.2)
        >>> print(to_latex(ComparisonTable(("motion_blur",), (row,))), end="")
        % \usepackage{booktabs,graphicx}
        \begin{tabular}{l*{1}{r}rr}
        \toprule
        Method & \rotatebox{70}{motion} & Avg. & ms\,/\,batch \\
        \midrule
        BN & \textbf{30.0} & \underline{30.0} $\pm$ 0.2 & 4.2 \\
        \bottomrule
        \end{tabular}
    """
    styles = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
    turned = [rf"\rotatebox{{70}}{{{latex_text(name)}}}" for name in table.short_headers]
    lines = [
        *([f"% Error in percent: {latex_text(title)}"] if title else []),
        r"% \usepackage{booktabs,graphicx}",
        rf"\begin{{tabular}}{{l*{{{len(turned)}}}{{r}}rr}}",
        r"\toprule",
        " & ".join(["Method", *turned, "Avg.", r"ms\,/\,batch"]) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        cells = _styled(row, styles, plus_minus=r" $\pm$ ")
        lines.append(" & ".join([latex_text(row.name), *cells, f"{row.ms_per_batch:.1f}"]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines).replace(_MISSING, "--") + "\n"


def _styled(row: Row, styles: Mapping[int, str], *, plus_minus: str) -> Sequence[str]:
    """The domains' errors and the average, marked by rank."""
    texts = [styles[cell.rank].format(cell.text) for cell in (*row.cells, row.average)]
    if row.std is not None:
        texts[-1] += f"{plus_minus}{row.std:.1f}"
    return texts
