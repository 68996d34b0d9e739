import csv
import io
from dataclasses import replace

import pytest

from rotta.report.beside import Entry, Grid, to_csv, to_latex, to_markdown


def grid(rows: dict[str, list[Entry]], columns: int | None = None) -> Grid:
    columns = columns or len(next(iter(rows.values())))
    names = tuple(f"c{number}" for number in range(columns))
    return Grid("grid", "A title", "method", names, tuple((k, tuple(v)) for k, v in rows.items()))


def cells(text: str) -> list[list[str]]:
    """Of the body of a Markdown table."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_few_columns_have_three_values_side_by_side() -> None:
    text = to_markdown(grid({"BN": [Entry(75.2, printed=73.4), Entry(30.0, printed=30.5)]}))
    assert "| method | c0, printed | c0, measured | difference | c1, printed |" in text
    assert cells(text) == [["BN", "73.4", "75.2", "+1.8", "30.5", "30.0", "−0.5"]]


def test_many_columns_have_smaller_lines_for_what_is_printed() -> None:
    rows = {
        "BN": [Entry(10.0, printed=9.0)] + [Entry(20.0)] * 3,
        "RoTTA": [Entry(30.0)] * 4,
    }
    assert cells(to_markdown(grid(rows))) == [
        ["BN", "**10.0**", "**20.0**", "**20.0**", "**20.0**"],
        ["<sub>printed</sub>", "<sub>9.0</sub>", "", "", ""],
        ["<sub>difference</sub>", "<sub>+1.0</sub>", "", "", ""],
        ["RoTTA", "30.0", "30.0", "30.0", "30.0"],
    ]


def test_where_nothing_is_printed_only_the_measured_values_are_shown() -> None:
    text = to_markdown(grid({"BN": [Entry(10.0)]}))
    assert "| method | c0 |" in text
    assert cells(text) == [["BN", "10.0"]]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (Entry(26.64), "26.6"),
        (Entry(26.64, None, 1), "26.6"),
        (Entry(26.64, 0.12, 3), "26.6 ± 0.1 (3)"),
        (Entry(), "missing"),
        (Entry(applies=False), ""),
        (Entry(float("nan"), seeds=1), "missing"),
    ],
)
def test_what_was_measured_in_words(entry: Entry, shown: str) -> None:
    assert cells(to_markdown(grid({"BN": [entry]}))) == [["BN", shown]]


def test_seeds_that_a_wide_row_shares_are_said_once() -> None:
    shared = grid({"BN": [Entry(10.0, 0.5, 3)] * 3 + [Entry()]})
    assert cells(to_markdown(shared)) == [["BN, 3 seeds", *["10.0 ± 0.5"] * 3, "missing"]]
    mixed = grid({"BN": [Entry(10.0, 0.5, 3)] * 3 + [Entry(9.0, seeds=1)]})
    assert cells(to_markdown(mixed)) == [["BN", *["10.0 ± 0.5 (3)"] * 3, "9.0"]]


def test_a_crowded_table_states_the_spread_of_its_last_column_only() -> None:
    assert cells(to_markdown(grid({"BN": [Entry(10.0, 0.5, 3)] * 16}))) == [
        ["BN, 3 seeds", *["10.0"] * 15, "10.0 ± 0.5"]
    ]


def test_a_difference_is_that_of_the_values_as_they_are_shown() -> None:
    lines = {"a": [Entry(25.249, printed=25.2)], "b": [Entry(25.251, printed=25.2)]}
    assert [line[3] for line in cells(to_markdown(grid(lines)))] == ["0.0", "+0.1"]


def test_the_best_of_a_column_is_bold_and_what_prints_alike_too() -> None:
    rows = {"a": [Entry(10.01)], "b": [Entry(10.04)], "c": [Entry(11.0)], "d": [Entry()]}
    shown = [line[1] for line in cells(to_markdown(grid(rows)))]
    assert shown == ["**10.0**", "**10.0**", "11.0", "missing"]


def test_rows_that_do_not_compete_have_no_best() -> None:
    sources = grid({"photo": [Entry(10.0)], "sketch": [Entry(11.0)]})
    assert "**10.0**" in to_markdown(sources)
    assert "**10.0**" not in to_markdown(replace(sources, best=False))


def test_nothing_measured_leaves_no_line_of_differences() -> None:
    text = to_markdown(grid({"BN": [Entry(printed=9.0)] * 4}))
    assert [line[0] for line in cells(text)] == ["BN", "<sub>printed</sub>"]


def test_what_is_printed_does_not_compete() -> None:
    rows = {"a": [Entry(10.0, printed=12.0)], "b": [Entry(printed=1.0)]}
    assert [line[2] for line in cells(to_markdown(grid(rows)))] == ["**10.0**", "missing"]


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("printed", [None, 20.0])
def test_every_row_of_the_latex_has_as_many_cells_as_columns(
    columns: int, printed: float | None
) -> None:
    rows = {name: [Entry(21.0, 0.1, 3, printed)] * columns for name in ("BN", "RoTTA")}
    lines = to_latex(grid(rows)).splitlines()
    values = columns * (3 if printed and columns <= 3 else 1)
    assert rf"\begin{{tabular}}{{l*{{{values}}}{{r}}}}" in lines
    body = [line for line in lines[lines.index(r"\midrule") :] if line.endswith(r"\\")]
    assert {line.count("&") for line in body} == {values}
    assert len(body) == (6 if printed and columns > 3 else 2)
    assert any(r"\rotatebox{70}{c0}" in line for line in lines) == (columns > 3)


def test_latex_writes_what_markdown_does() -> None:
    rows = {"BN": [Entry(20.0, 0.12, 3, 21.0)] * 4, "RoTTA": [Entry()] * 4}
    text = to_latex(grid(rows))
    assert r"BN, 3 seeds & \textbf{20.0 $\pm$ 0.1} & " in text
    assert r"\quad\footnotesize difference & \footnotesize $-$1.0 & " in text
    assert "RoTTA & missing & missing & missing & missing" in text


HOSTILE = r"a|b_c*&%$#{}~^\<script>, δ"


def test_names_cannot_break_a_table() -> None:
    strange = Grid("grid", HOSTILE, HOSTILE, (HOSTILE,), ((HOSTILE, (Entry(1.0),)),))
    lines = to_markdown(strange).splitlines()
    assert {line.replace(r"\|", "").count("|") for line in lines[2:]} == {3}
    assert r"\<script\>" in lines[0]
    escaped = r"a\textbar{}b\_c*\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    assert to_latex(strange).count(escaped) == 4
    assert r"$\delta$" in to_latex(strange)


def test_a_note_is_in_every_format() -> None:
    noted = replace(grid({"a": [Entry(9.0)]}), note="quick: 2,000 images")
    assert "(quick: 2,000 images)**" in to_markdown(noted)
    assert r"\multicolumn{2}{l}{\footnotesize quick: 2,000 images} \\" in to_latex(noted)
    assert to_csv(noted).splitlines()[1].endswith(',"quick: 2,000 images"')


def test_csv_has_a_line_per_entry() -> None:
    rows = {"a,b": [Entry(26.648, 0.123, 3, 25.2), Entry()], "c": [Entry(9.0), Entry(printed=8.0)]}
    assert list(csv.reader(io.StringIO(to_csv(grid(rows))))) == [
        ["row", "column", "printed", "measured", "std", "seeds", "difference", "note"],
        ["a,b", "c0", "25.20", "26.65", "0.12", "3", "1.45", ""],
        ["a,b", "c1", "", "", "", "0", "", ""],
        ["c", "c0", "", "9.00", "", "0", "", ""],
        ["c", "c1", "8.00", "", "", "0", "", ""],
    ]
