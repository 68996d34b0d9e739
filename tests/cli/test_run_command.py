"""``rotta run`` as a person types it: the table, the files, and what is kept when it breaks off."""

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
from torch import Tensor
from typer.testing import CliRunner, Result

from rotta.adapters import METHODS, Source
from rotta.cli import app, main

SMALL = ("run", "--limit", "30", "--order", "fog,snow")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def rotta(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def record(folder: Path | str) -> Any:
    return json.loads((Path(folder) / "result.json").read_text())


class RunsOut(Source):
    """A method that raises at once."""

    def infer(self, x: Tensor) -> Tensor:
        raise RuntimeError("out of [memory]")


def test_run_compares_every_method_but_the_slow_one() -> None:
    done = rotta(*SMALL, "--out", "result")
    assert done.exit_code == 0, done.output
    stored = record("result")
    assert list(stored["methods"]) == [name for name in METHODS if name != "cotta"]
    assert stored["config"]["complete"] is True
    assert stored["config"]["classes"] == [str(digit) for digit in range(10)]
    for name, scored in stored["methods"].items():
        assert list(scored["per_domain"]) == ["fog", "snow"]
        assert scored["average_error"] == pytest.approx(sum(scored["per_domain"].values()) / 2)
        assert f"{name}, seed 0: error {scored['average_error']:.1f} %" in done.stderr
        assert re.search(rf"^ {name}\b.* {scored['average_error']:.1f} ", done.stdout, re.M | re.I)
    for file in ("report.html", "result.json", "stream.png"):
        assert str(Path("result") / file) in done.stdout
        assert (Path("result") / file).stat().st_size > 1000
    with Image.open("result/stream.png") as picture:
        assert picture.width > 1000
    assert "rotta run --methods all" in done.stdout.splitlines()[-1]


def test_named_methods_are_run_as_named_and_in_that_order() -> None:
    done = rotta(*SMALL, "--methods", "rotta:capacity=16,source", "--out", "result")
    assert list(record("result")["methods"]) == ["rotta:capacity=16", "source"]
    bank = record("result")["methods"]["rotta:capacity=16"]["seeds"]["0"]["bank"]
    assert max(sum(counts) for counts in bank["counts"]) <= 16
    assert "--methods all" not in done.output


def test_seeds_share_a_result_and_each_is_the_one_of_its_own_run() -> None:
    words = (*SMALL, "--methods", "source")
    both = rotta(*words, "--seeds", "0,3")
    assert "mean of 2 seeds" in both.stdout
    assert " ± " in both.stdout
    assert rotta(*words, "--seed", "3").exit_code == 0
    stored = record("runs/digits-c-ptta-seeds0-3")
    alone = record("runs/digits-c-ptta-seed3")["methods"]["source"]["seeds"]["3"]
    scored = stored["methods"]["source"]
    timeless = {**scored["seeds"]["3"], "ms_per_batch": alone["ms_per_batch"]}
    assert timeless == alone
    assert stored["config"]["seeds"] == [0, 3]
    assert stored["provenance"]["data"]["seed"] == "0"  # the images are the same for all
    averages = [scored["seeds"][seed]["average_error"] for seed in "03"]
    assert scored["average_error"] == pytest.approx(sum(averages) / 2)


def test_run_takes_what_it_is_told() -> None:
    words = ("run", "--methods", "source", "--limit", "20", "--order", "fog", "--visits", "3")
    told = ("--batch-size", "7", "--setting", "fully", "--severity", "1")
    done = rotta(*words, *told, "--out", "mild")
    assert "1 method over 9 batches, 60 images, Fully TTA" in done.output  # 3 visits of 7 + 7 + 6
    config = record("mild")["config"]
    assert (config["severity"], config["visits"], config["batch_size"]) == (1, 3, 7)
    assert rotta(*words, "--delta", "inf", "--out", "hard").exit_code == 0
    error = {name: record(name)["methods"]["source"]["average_error"] for name in ("mild", "hard")}
    assert error["mild"] < error["hard"]


def test_a_run_does_not_replace_another_unasked() -> None:
    words = ("run", "--methods", "source", "--limit", "5", "--order", "fog")
    for _ in range(2):
        assert rotta(*words).exit_code == 0
    names = sorted(p.name for p in Path("runs").iterdir())
    assert names == ["digits-c-ptta-seed0", "digits-c-ptta-seed0-2"]


def test_a_folder_that_holds_a_result_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine").mkdir()
    Path("mine/result.json").write_text("precious")
    monkeypatch.setattr(sys, "argv", ["rotta", *SMALL, "--out", "mine"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "mine holds a result.json already: give --out another name" in capsys.readouterr().err
    assert Path("mine/result.json").read_text() == "precious"
    assert [p.name for p in Path().rglob("*")] == ["mine", "result.json"]


def test_a_method_that_raises_is_named_and_the_others_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "tent", RunsOut)
    done = rotta(*SMALL, "--methods", "source,tent,bn", "--out", "result")
    assert done.exit_code == 1
    assert "failed: tent, seed 0: RuntimeError: out of [memory]" in done.stderr
    stored = record("result")
    assert list(stored["methods"]) == ["source", "bn"]
    assert stored["config"]["complete"] is False
    assert [failed["label"] for failed in stored["config"]["failed"]] == ["tent"]
    assert Path("result/report.html").exists()


def test_when_every_method_raises_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", RunsOut)
    done = rotta(*SMALL, "--methods", "tent", "--out", "result")
    assert (done.exit_code, done.stdout) == (1, "")


def test_ctrl_c_keeps_what_is_finished_and_says_where(tmp_path: Path) -> None:
    seeds = ",".join(str(seed) for seed in range(1000))
    words = [*SMALL, "--methods", "source", "--seeds", seeds, "--out", "result"]
    running = subprocess.Popen(
        [sys.executable, "-m", "rotta", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while not (tmp_path / "result" / "result.json").exists() and running.poll() is None:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    kept = Path("result") / "result.json"
    assert told.splitlines()[-1].startswith(f"stopped: what was finished is in {kept}")
    stored = record("result")
    assert stored["config"]["complete"] is False
    assert 1 <= len(stored["methods"]["source"]["seeds"]) < 1000


def test_help_names_every_method_and_how_options_are_given() -> None:
    shown = rotta("run", "--help").output
    for name in (*METHODS, "all", "note:lr=0.001"):
        assert re.search(rf"\b{name}\b", shown)
