"""``rotta bench`` as a person types it."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotta.bench import benchmark
from rotta.cli import app, main

TINY = ("bench", "--model", "wrn-10-1", "--image-size", "8")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")


def rotta(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def test_a_table_a_sentence_and_a_file(tmp_path: Path) -> None:
    words = ("--methods", "rotta,tent", "--batch-sizes", "64", "--seconds", "0")
    done = rotta(*TINY, *words, "--json", "new/speed.json")
    assert done.exit_code == 0, done.output
    for name in ("floor", "bare", "rotta", "plain", "tent", "predict+update"):
        assert name in done.output
    begins = "measuring rotta, tent with wrn-10-1 on cpu; a table of 9 lines follows, then new/"
    assert done.stderr.startswith(begins)
    record = json.loads((tmp_path / "new" / "speed.json").read_text("utf-8"))
    over_floor, over_rotta = record["rotta_over_floor"], record["plain_over_rotta"]
    assert (
        f"RoTTA takes {over_floor:.2f} × the floor, and the plain implementation "
        f"{over_rotta:.2f} × RoTTA\n" in done.output
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["speed.json"]


def test_quick_says_what_it_leaves_out() -> None:
    done = rotta(*TINY, "--quick")
    assert done.exit_code == 0, done.output
    assert "left out: cotta" in done.output
    assert "left out: other batch sizes" in done.output
    assert done.stderr.startswith("measuring source, bn, pl, tent, lame, note, rotta")
    assert done.stderr.count("\n") == 1
    for name in ("source", "bn", "pl", "tent", "lame", "note"):
        assert name in done.output


def test_whoever_has_no_kernels_for_cpus_is_told(each_way: str) -> None:
    done = rotta(*TINY, "--methods", "source", "--batch-sizes", "2", "--seconds", "0")
    without = each_way == "PyTorch's kernels"
    assert ("ours were not compiled when rotta was installed" in done.output) == without


def test_without_rotta_there_are_no_ratios() -> None:
    done = rotta(*TINY, "--methods", "source", "--batch-sizes", "2", "--seconds", "0")
    assert done.exit_code == 0, done.output
    assert "no ratios: they need rotta" in done.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model", "wrn-40"), "did you mean 'wrn-40-2'"),
        (("--model", "digits", "--classes", "5"), "leave --classes out"),
        (("--device", "cuda:99"), "use --device cpu"),
        (("--device", "mps"), "use cpu, cuda"),
        (("--methods", "rota"), "did you mean 'rotta'"),
        (("--methods", "rotta:alpha=2"), "alpha must be between 0 and 1"),
        (("--batch-sizes", "0,64"), "--batch-sizes takes different numbers from 1 on"),
        (("--batch-sizes", "64,64"), "--batch-sizes takes different numbers from 1 on"),
        (("--batch-sizes", "many"), "--batch-sizes takes whole numbers"),
        (("--quick", "--batch-sizes", "1"), "leave out --batch-sizes and --seconds"),
        (("--quick", "--seconds", "1"), "leave out --batch-sizes and --seconds"),
        (("--json", "folder"), "folder is a folder: give --json the name of a file"),
        (("--json", "file/speed.json"), "cannot write file/speed.json: give --json another"),
    ],
)
def test_mistakes_end_in_one_sentence_before_anything_is_measured(
    words: tuple[str, ...],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))

    def fail(*_: object) -> None:
        raise AssertionError("something was measured")

    monkeypatch.setattr(benchmark, "measure", fail)
    monkeypatch.setattr(sys, "argv", ["rotta", *TINY, *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert expected in told
    assert "measuring" not in told
    assert sorted(tmp_path.rglob("*")) == before


def test_help_teaches_with_an_example() -> None:
    shown = rotta("bench", "--help").output
    assert "Example: `rotta bench" in shown
    for word in ("floor", "plain", "bare", "--quick", "--json", "45 seconds"):
        assert word in shown
