"""``rotta reproduce`` as a person types it."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console
from torch import Tensor
from typer.testing import CliRunner, Result

from rotta.adapters import METHODS, Source
from rotta.cli import app, grid_live, main
from rotta.comparison import Look
from rotta.experiments import EXPERIMENTS
from rotta.experiments.engines import Broken
from rotta.experiments.experiment import Blocks, Experiment, Presentation, Variant
from rotta.experiments.measured import average
from rotta.experiments.store import claimed
from rotta.experiments.tasks import Walk
from rotta.report.beside import Grid

needs_cifar = pytest.mark.skipif(
    "ROTTA_HOME" not in os.environ, reason="needs CIFAR: set ROTTA_HOME"
)

ROWS = ("source", "tent", "bn")


def present(blocks: Blocks) -> Presentation:
    rows = tuple((label, (average(blocks, "digits", label, 30.0),)) for label in ROWS)
    return Presentation((Grid("average", "Digits: error, %", "method", ("average",), rows),))


SMALL = Experiment(
    "table-digits",
    "Digits: three methods",
    (Variant("digits", "digits-c", "digits", ROWS, order=("fog", "snow")),),
    present,
)
RUN_SMALL = ("reproduce", "table-digits", "--limit", "20", "--device", "cpu")
STARTED = """
import sys
sys.path.insert(0, {folder!r})
from test_reproduce_command import EXPERIMENTS, SMALL, main
EXPERIMENTS["table-digits"] = SMALL
main()
"""

# measured on one machine; one of 75 predictions is 1.3 points
CIFAR_WORDS = ("table-cifar100", "--limit", "5", "--methods", "source,rotta")
CIFAR_ERRORS = {"Source": 66.67, "RoTTA": 65.33}


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits' corrupted images are made once for all tests here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _here(shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(shared_cache))
    monkeypatch.setenv("ROTTA_COMMIT", "0123456")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "table-digits", SMALL)


def rotta(*words: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": str(columns)})


def stored(out: str = "results", limit: int = 20, name: str = "table-digits") -> Any:
    return json.loads(Path(out, f"limit-{limit}", name, "result.json").read_text())


def refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> str:
    """The one sentence that a mistake is answered with."""
    monkeypatch.setattr(sys, "argv", ["rotta", "reproduce", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    return " ".join(capsys.readouterr().err.split())


class RunsOut(Source):
    """A method that raises at once."""

    def infer(self, x: Tensor) -> Tensor:
        raise RuntimeError("out of [memory]")


class Interrupted(Source):
    """A method during which somebody presses Ctrl-C."""

    def infer(self, x: Tensor) -> Tensor:
        raise KeyboardInterrupt


def test_the_list_names_every_experiment_what_it_needs_and_how_far_it_is() -> None:
    listed = rotta("reproduce", "--list")
    assert listed.exit_code == 0, listed.output
    assert listed.output == rotta("reproduce").output
    for name in EXPERIMENTS:
        assert re.search(rf"^{name} ", listed.output, re.M)
    assert re.search(r"^table-digits +Digits: three methods +0 of 3 +digits-c", listed.output, re.M)
    assert max(map(len, listed.output.splitlines())) <= 80
    assert not list(Path().iterdir())


def test_the_list_of_one_experiment_has_what_patterns_choose_from() -> None:
    shown = rotta("reproduce", "--list", "table-orders").output
    for variant in EXPERIMENTS["table-orders"].variants:
        assert variant.name in shown
    assert "lame" in shown
    assert "table-cifar10" not in shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("table-digit",), "unknown experiment 'table-digit': did you mean 'table-digits'"),
        (("table-digits", "--quick", "--limit", "3"), "--quick is --limit 2000: give one of them"),
        (("table-digits", "--engine", "rey"), "--engine is one of local, ray, not 'rey'"),
        (("table-digits", "--address", "here:1"), "add --engine ray"),
        (("table-digits", "--seeds", "0,0"), "--seeds takes different numbers"),
        (("table-digits", "--precision", "float8"), "--precision is one of float32, float16,"),
        (("table-digits", "--precision", "float16", "--device", "cpu"), "float16 needs a GPU"),
        (("table-digits", "--device", "tpu"), "use cpu, cuda"),
    ],
)
def test_mistakes_end_in_one_sentence_before_anything_is_written(
    words: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert expected in refusal(monkeypatch, capsys, *words)
    assert not list(Path().iterdir())


def test_patterns_that_fit_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(monkeypatch, capsys, "table-digits", "--methods", "nothing")
    assert "no walk fits --methods and --variants" in told
    assert not list(Path().rglob("result.json"))


def test_a_place_where_another_one_writes_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with claimed(Path("results")):
        told = refusal(monkeypatch, capsys, *RUN_SMALL[1:])
    assert "another `rotta reproduce` writes to results" in told


def test_a_table_and_files_and_nothing_twice() -> None:
    done = rotta(*RUN_SMALL, "--jobs", "1", "--seeds", "0,1")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("digits: bn, seed") == 2
    assert "(6 of 6)" in done.stderr
    error = stored()["methods"]["bn"]["average_error"]
    assert re.search(rf"^ bn +{error:.1f} \(30\.0\) *$", done.stdout, re.M)
    folder = Path("results/limit-20/table-digits")
    assert f"table-digits: .tex, .csv files in {folder}\n" in done.stdout
    assert {file.name for file in folder.iterdir()} == {"result.json", "average.tex", "average.csv"}

    before = {file: file.read_bytes() for file in folder.iterdir()}
    again = rotta(*RUN_SMALL, "--seeds", "0,1")
    assert "6 of 6 walks are finished already\n" in again.stdout
    assert again.stderr == ""
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    assert "3 of 3" in rotta("reproduce", "--list", "--limit", "20").stdout
    assert "0 of 3" in rotta("reproduce", "--list").stdout


def test_chosen_methods_only_and_the_rest_is_missing() -> None:
    done = rotta(*RUN_SMALL, "--jobs", "1", "--methods", "sour*")
    assert list(stored()["methods"]) == ["source"]
    assert re.search(r"^ tent +missing \(30\.0\)", done.stdout, re.M)


def test_a_walk_that_fails_is_told_and_the_others_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "tent", RunsOut)
        done = rotta(*RUN_SMALL, "--jobs", "1")
    assert done.exit_code == 1
    assert re.search(r"^digits: tent, seed 0: failed: .*out of \[memory\]$", done.stderr, re.M)
    assert done.stdout.endswith("1 failed, see above: give the same command to try again\n")
    assert list(stored()["methods"]) == ["source", "bn"]

    again = rotta(*RUN_SMALL, "--jobs", "1")
    assert again.exit_code == 0, again.output
    assert "2 of 3 walks are finished already" in again.stdout
    assert list(stored()["methods"]) == list(ROWS)


def test_when_every_walk_fails_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", RunsOut)
    done = rotta(*RUN_SMALL, "--jobs", "1", "--methods", "tent")
    assert done.exit_code == 1
    assert done.stdout.startswith("table-digits: no results yet\n")


def test_ctrl_c_says_that_the_finished_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(METHODS, "tent", Interrupted)
    monkeypatch.setattr(sys, "argv", ["rotta", *RUN_SMALL, "--jobs", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == "stopped: finished walks are kept: give the same command to go on"
    assert list(stored()["methods"]) == ["source"]


def test_ctrl_c_ends_the_processes_beside_it() -> None:
    seeds = ",".join(map(str, range(1000)))
    words = [*RUN_SMALL, "--methods", "source", "--seeds", seeds, "--jobs", "2"]
    code = STARTED.format(folder=str(Path(__file__).parent))
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    while not list(Path().rglob("result.json")) and running.poll() is None:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: all that belongs to it
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in told
    assert told.splitlines()[-1].startswith("stopped: finished walks are kept")
    assert is_gone(running.pid)
    assert 1 <= len(stored()["methods"]["source"]["seeds"]) < 1000


def is_gone(group: int) -> bool:
    """Whether a group of processes is, after the moment that the last of them may take."""
    for _ in range(1000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_the_diagram_needs_no_data(quick: tuple[str, ...]) -> None:
    done = rotta("reproduce", "figure-framework", *quick)
    assert done.exit_code == 0, done.output
    assert done.stdout == "figure-framework: .png, .svg files in results/figure-framework\n"
    with Image.open("results/figure-framework/framework.png") as picture:
        assert picture.width > 500
    assert rotta("reproduce", "--page", "docs/page.md").exit_code == 0
    shown = Path("docs/page.md").read_text(encoding="utf-8")
    assert "(../results/figure-framework/framework.png)" in shown


def test_a_terminal_shows_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    console = Console(force_terminal=True, width=120, file=written, color_system=None)
    monkeypatch.setattr(grid_live, "errors", console)
    walk = Walk(SMALL.variants[0], "bn", 3, None, "cpu")
    with grid_live.GridLive(walks=2) as live:
        live.look(Look("bn", 3, batches=4, total=10, error=65.62, seconds=1.0))
        live.end(walk, Broken("RuntimeError: out of [memory]", "where it happened"))
    shown = written.getvalue()
    assert re.search(r"walks .* 0/2 left .* bn, seed 3: 4 of 10 batches, error 65\.6 %", shown)
    assert "digits: bn, seed 3: failed: RuntimeError: out of [memory]\nwhere it happened" in shown
    assert " 1/2 left " in shown


def test_help_teaches_with_examples() -> None:
    shown = rotta("reproduce", "--help").output
    for line in (
        "Example: `rotta reproduce table-cifar10 --seeds 0,1,2`",
        "Example: `rotta reproduce --page docs/reproduction.md`",
    ):
        assert line in shown
    for word in ("2,000 images", "--engine", "--variants", "Ray"):
        assert word in shown


@needs_cifar
def test_a_table_of_the_paper_has_the_errors_that_it_had() -> None:
    words = ("reproduce", *CIFAR_WORDS, "--device", "cpu", "--jobs", "1", "--page", "docs/page.md")
    done = rotta(*words)
    assert done.exit_code == 0, done.output
    assert "5 images per domain" in done.stdout
    folder = Path("results/limit-5/table-cifar100")
    with (folder / "average.csv").open(encoding="utf-8") as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    errors = {name: float(row["measured"]) for name, row in rows.items() if row["measured"]}
    assert errors == pytest.approx(CIFAR_ERRORS, abs=2.8)  # other processors round otherwise
    for name, error in errors.items():
        assert f"{error:.1f} ({float(rows[name]['printed']):.1f})" in done.stdout
    assert rows["TENT"]["measured"] == ""
    assert re.search(r"TENT +missing \(92\.8\)", done.stdout)
    tex = (folder / "corruptions.tex").read_text(encoding="utf-8")
    assert tex.startswith("% CIFAR100-C: error per corruption")
    assert "`rotta reproduce table-cifar100`" in Path("docs/page.md").read_text(encoding="utf-8")
    assert "2 of 2 walks are finished already" in rotta(*words).stdout


@needs_cifar
def test_the_stream_is_drawn() -> None:
    done = rotta("reproduce", "figure-stream")
    assert done.exit_code == 0, done.output
    with Image.open("results/figure-stream/stream.png") as picture:
        assert picture.width > 1000
    assert Path("results/figure-stream/stream.svg").read_text(encoding="utf-8").count("<path") > 0


def test_without_cifar_the_table_says_what_to_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    told = refusal(monkeypatch, capsys, "table-cifar100")
    assert "cifar-100" in told
    assert str(tmp_path / "cache") in told
    assert not list(tmp_path.iterdir())
