"""``rotta report`` as a person types it."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from rotta.cli import app, main
from rotta.results import MethodResult, Result, SeedResult, Windows


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "one")


def write_run(folder: Path, setting: str = "ptta") -> None:
    def scored(error: float) -> MethodResult:
        windows = Windows([64, 128], [error, error], [0.5, 0.5], [0.9, 0.9])
        domains = {"motion_blur": error, "fog": error}
        return MethodResult.over({0: SeedResult(error, domains, {"cat": error}, 3.0, windows)})

    config = {"dataset": "digits-c", "setting": setting, "order": ["motion_blur", "fog"]}
    Result({"source": scored(50.0), "rotta": scored(12.5)}, config).save(folder / "result.json")


def report(*words: str) -> Outcome:
    return CliRunner().invoke(app, ("report", *words), env={"COLUMNS": "200"})


def test_a_page_lies_in_the_runs_folder(tmp_path: Path) -> None:
    done = report("one")
    assert done.exit_code == 0, done.output
    assert "one/report.html" in done.output
    assert "RoTTA has the lowest" in (tmp_path / "one" / "report.html").read_text("utf-8")
    again = report("one/result.json", "--out", "elsewhere/page.html")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "elsewhere" / "page.html").is_file()


def test_several_runs_share_a_page_in_the_first_folder(tmp_path: Path) -> None:
    write_run(tmp_path / "two", setting="continual")
    assert report("one", "two").exit_code == 0
    page = (tmp_path / "one" / "report.html").read_text("utf-8")
    assert "Practical TTA" in page
    assert "Continual TTA" in page
    assert not (tmp_path / "two" / "report.html").exists()


def test_tables_are_printed_and_nothing_else(tmp_path: Path) -> None:
    markdown, latex = report("one", "--format", "md"), report("one", "--format", "latex")
    assert "| RoTTA | **12.5** | **12.5** | **12.5** | 3.0 |\n" in markdown.output
    assert latex.output.endswith("\\end{tabular}\n")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["result.json"]


def test_tables_of_several_runs_go_to_one_file(tmp_path: Path) -> None:
    write_run(tmp_path / "two", setting="continual")
    done = report("one", "two", "--format", "latex", "--out", "table.tex")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "table.tex").read_text("utf-8")
    assert text.count(r"\begin{tabular}") == 2
    assert "% Error in percent: digits-c, Continual TTA" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("nowhere",), "there is no nowhere: give a folder that `rotta run` wrote"),
        (("empty",), "there is no empty/result.json"),
        (("damaged",), "is not the result of a run"),
        (("unstarted",), "no method has finished yet: start the run again"),
        (("one", "--format", "pdf"), "unknown format 'pdf'. Available: html, md, latex"),
        (("one", "--out", "empty"), "cannot write empty (Is a directory): give --out another"),
        (("one", "--out", "one/result.json/x"), "give --out another place"),
        (("one", "--format", "md", "--out", "empty"), "cannot write empty"),
    ],
)
def test_mistakes_end_in_one_sentence(
    words: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "result.json").write_text('{"methods": {"rotta"')
    Result({}, {}).save(tmp_path / "unstarted" / "result.json")
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["rotta", "report", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert expected in " ".join(said.split())
    assert "Traceback" not in said
    assert sorted(tmp_path.rglob("*")) == before


def test_help_teaches_with_an_example() -> None:
    shown = report("--help").output
    assert "Example: `rotta report" in shown
    assert "--format" in shown
