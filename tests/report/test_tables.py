import pytest
from made_results import method, result

from rotta.adapters import METHODS
from rotta.report.names import method_name, setting_name, short_domain_names
from rotta.report.tables import ComparisonTable, comparison_table, to_latex, to_markdown
from rotta.report.verdict import verdict
from rotta.results import Result
from rotta.streams import PAPER_ORDER, SETTINGS


def table(std: float | None = None, **methods: float) -> ComparisonTable:
    scored = {label: method({"fog": error}, std=std) for label, error in methods.items()}
    return comparison_table(Result(scored, {}))


def ranks(**methods: float) -> list[int]:
    return [row.average.rank for row in table(**methods).rows]


def test_columns_are_the_domains_in_the_order_of_the_stream() -> None:
    compared = comparison_table(result({"source": 40.0, "rotta": 10.0}))
    assert compared.domains == PAPER_ORDER
    assert [row.name for row in compared.rows] == ["Source", "RoTTA"]
    assert all(len(row.cells) == 15 for row in compared.rows)


def test_best_and_second_are_those_of_each_column() -> None:
    errors = {"bn": {"fog": 9.0, "snow": 1.0}, "pl": {"fog": 5.0, "snow": 2.0}}
    errors["rotta"] = {"fog": 1.0, "snow": 3.0}
    rows = comparison_table(Result({k: method(v) for k, v in errors.items()}, {})).rows
    assert [[cell.rank for cell in row.cells] for row in rows] == [[0, 1], [2, 2], [1, 0]]
    assert [row.average.rank for row in rows] == [0, 2, 1]


def test_what_prints_alike_shares_its_rank() -> None:
    assert ranks(bn=10.01, pl=10.04, tent=11.0, note=12.0) == [1, 1, 2, 0]
    assert ranks(bn=9.0, pl=10.0, tent=10.0) == [1, 2, 2]


def test_a_lone_method_is_not_ranked() -> None:
    assert ranks(rotta=10.0) == [0]


def test_what_is_missing_is_neither_ranked_nor_in_the_way() -> None:
    scored = {"bn": method({"fog": 9.0, "snow": float("nan")}), "rotta": method({"fog": 8.0})}
    bn, rotta = comparison_table(Result(scored, {})).rows
    assert [(cell.text, cell.rank) for cell in bn.cells] == [("9.0", 2), ("–", 0)]
    assert [(cell.text, cell.rank) for cell in rotta.cells] == [("8.0", 1), ("–", 0)]


def test_every_method_and_setting_has_its_printed_name() -> None:
    assert all(method_name(label).lower() == label for label in METHODS)
    assert all(method_name(label) != label for label in METHODS)
    assert {name: setting_name(name) for name in SETTINGS} == {
        name: setting.title for name, setting in SETTINGS.items()
    }


def test_options_stay_in_the_name() -> None:
    assert method_name("rotta:alpha=0.1:nu=0.01") == "RoTTA (alpha=0.1, nu=0.01)"


def test_the_papers_short_names() -> None:
    assert " ".join(short_domain_names(PAPER_ORDER)) == (
        "motion snow fog shot defocus contrast zoom brightness frost elastic glass gaussian "
        "pixelate jpeg impulse"
    )


def test_short_names_stay_different() -> None:
    names = ("gaussian_noise", "gaussian_blur", "shot_noise", "shot")
    assert short_domain_names(names) == ("gaussian noise", "gaussian blur", "shot noise", "shot")


def test_markdown_marks_ranks_and_states_the_spread() -> None:
    text = to_markdown(table(std=0.44, source=50.0, note=20.0, rotta=10.0), "digits-c")
    assert text.startswith("Error in percent: digits-c\n\n| method | fog | average |")
    assert "| RoTTA | **10.0** | **10.0** ± 0.4 | 1.0 |" in text
    assert "| NOTE | <u>20.0</u> | <u>20.0</u> ± 0.4 | 1.0 |" in text
    assert "| Source | 50.0 | 50.0 ± 0.4 | 1.0 |" in text
    assert len({line.count("|") for line in text.splitlines()[2:]}) == 1


def test_latex_is_a_tabular_of_equal_rows() -> None:
    lines = to_latex(comparison_table(result({"source": 40.0, "rotta": 10.0}))).splitlines()
    assert r"\begin{tabular}{l*{15}{r}rr}" in lines
    rows = [line for line in lines if line.endswith(r"\\")]
    assert [row.count("&") for row in rows] == [17, 17, 17]
    assert r"\rotatebox{70}{motion}" in rows[0]
    assert r"\underline{" in rows[1]
    assert r"\textbf{" in rows[2]


HOSTILE = r"a|b_c*&%$#{}~^\<script>"


def test_names_cannot_break_a_table() -> None:
    strange = comparison_table(Result({HOSTILE: method({HOSTILE: 1.0})}, {}))
    head, rule, row = to_markdown(strange).splitlines()
    assert head.replace(r"\|", "").count("|") == rule.count("|")
    assert row.replace(r"\|", "").count("|") == rule.count("|")
    assert r"\<script\>" in row
    latex = r"a\textbar{}b c*\&\%\$\#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
    assert latex + r"\textless{}script\textgreater{}" in to_latex(strange)


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        ({"rotta": 10.0}, "RoTTA has an average error of 10.0 %."),
        (
            {"source": 50.0, "note": 20.0, "rotta": 12.5},
            "RoTTA has the lowest average error: 12.5 %, 7.5 points below NOTE, the next best, "
            "and 37.5 below the unadapted source model.",
        ),
        ({"bn": 9.0, "rotta": 9.04, "pl": 10.0}, "BN and RoTTA share the lowest average error"),
        ({"source": 5.0, "bn": 7.0, "rotta": 9.0}, "the next best. RoTTA has 9.0 %."),
        ({"source": 5.0, "rotta": 9.0}, "4.0 points below RoTTA, the next best."),
        ({"rotta": float("nan")}, "No method reached a domain."),
    ],
)
def test_the_verdict_names_winner_and_margin(methods: dict[str, float], said: str) -> None:
    assert said in verdict(table(**methods))


def test_a_margin_within_the_spread_of_the_seeds_is_said_to_be_so() -> None:
    assert "less than the seeds differ" in verdict(table(std=1.0, bn=10.0, rotta=9.5))
    assert "less than the seeds differ" not in verdict(table(std=0.1, bn=10.0, rotta=9.5))


def test_a_method_with_fewer_seeds_says_so() -> None:
    three, one = result({"rotta": 9.0}, seeds=(0, 1, 2)), result({"bn": 5.0})
    mixed = Result({**one.methods, **three.methods}, three.config)
    names = [row.name for row in comparison_table(mixed).rows]
    assert names == ["BN, 1 of 3 seeds", "RoTTA"]
