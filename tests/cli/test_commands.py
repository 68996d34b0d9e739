"""The commands as a person types them."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner, Result

from rotta.cli import app, main
from rotta.corruptions import CORRUPTIONS
from rotta.datasets import DATASETS
from rotta.models import SOURCES, load_source, read_weights
from rotta.streams import SETTINGS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def rotta(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def test_list_names_everything_there_is() -> None:
    shown = rotta("list").output
    for name in (*CORRUPTIONS, *DATASETS, *SOURCES, *SETTINGS):
        assert name in shown
    assert "fog" not in rotta("list", "streams").output


def test_stream_draws_one_row_per_delta(tmp_path: Path) -> None:
    for deltas in ("0.1", "inf,1,0.1,0.01"):
        assert rotta("stream", "--deltas", deltas, "--out", f"{len(deltas)}.png").exit_code == 0
    with Image.open(tmp_path / "3.png") as one, Image.open(tmp_path / "14.png") as four:
        assert four.height > one.height + 300
    assert not list((tmp_path / "cache").rglob("*.npy"))  # labels are enough for a picture


def test_corrupt_writes_the_published_layout(tmp_path: Path) -> None:
    done = rotta("corrupt", "--corruptions", "fog,frost", "--limit", "12", "--out", "digits-c")
    assert done.exit_code == 0, done.output
    assert "frost pictures: " in done.output
    fog = np.load(tmp_path / "digits-c" / "fog.npy")
    labels = np.load(tmp_path / "digits-c" / "labels.npy")
    assert (fog.shape, fog.dtype) == ((60, 32, 32, 3), np.uint8)
    assert labels.shape == (60,)
    words = ("run", "--dataset", "corrupted:digits-c", "--source", "digits", "--severity", "3")
    again = rotta(*words, "--methods", "source", "--out", "out")
    assert again.exit_code == 0, again.output


def test_corrupt_draws_what_it_would_do(tmp_path: Path) -> None:
    words = ("corrupt", "--corruptions", "fog,snow,frost", "--severities", "1,5")
    assert rotta(*words, "--out", "look.png").exit_code == 0
    with Image.open(tmp_path / "look.png") as picture:
        assert picture.width > picture.height
    assert [p.name for p in tmp_path.iterdir()] == ["look.png"]


def test_train_writes_weights_that_load(tmp_path: Path) -> None:
    words = ("train", "--arch", "wrn-10-1", "--dataset", "digits", "--epochs", "1")
    done = rotta(*words, "--out", "net.safetensors")
    assert done.exit_code == 0, done.output
    assert load_source(tmp_path / "net.safetensors").head.out_features == 10
    metadata = read_weights(tmp_path / "net.safetensors")[1]
    assert "--epochs 1" in metadata["training"]
    assert not (tmp_path / "net.safetensors.training").exists()
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert (tmp_path / "net.safetensors").stat().st_mode == ordinary.stat().st_mode
    before = (tmp_path / "net.safetensors").read_bytes()
    again = rotta(*words, "--out", "net.safetensors")
    assert "is there already" in str(again.exception)
    assert (tmp_path / "net.safetensors").read_bytes() == before


TRAIN = ("train", "--arch", "wrn-10-1", "--dataset", "digits")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "--severity", "6"), "severity must be 1, 2, 3, 4 or 5"),
        (("run", "--dataset", "digit-c"), "did you mean 'digits-c'"),
        (("run", "--source", "digit"), "did you mean 'digits'"),
        (("run", "--source", "cifar10-wrn28-10"), "use --source digits"),
        (("run", "--dataset", "./mine"), "domains:./mine"),
        (("corrupt", "--out", "look.jpg"), ".png or .svg"),
        (("corrupt", "--dataset", "digits-c", "--out", "look.png"), "only a clean dataset"),
        (("corrupt", "--corruptions", "", "--out", "look.png"), "no corruption was named"),
        (("run", "--device", "mps"), "use cpu, cuda"),
        (
            [
                "train",
                "--arch",
                "wrn-10-1",
                "--dataset",
                "digits",
                "--label-smoothing",
                "2",
                "--out",
                "a.safetensors",
            ],
            "label_smoothing must be in",
        ),
        (("run", "--source", "nowhere.safetensors"), "nowhere.safetensors"),
        (("run", "--setting", "pta"), "did you mean 'ptta'"),
        (("run", "--delta", "0"), "delta must be greater than 0"),
        (("run", "--device", "cuda:99"), "use --device cpu"),
        (("run", "--methods", "rota"), "did you mean 'rotta'"),
        (("run", "--methods", ""), "no method is named"),
        (("run", "--methods", "note:lr=fast"), "note:lr takes a number"),
        (("run", "--seed", "1", "--seeds", "2,3"), "not both: --seeds 1,2,3"),
        (("run", "--seeds", "1,1"), "different numbers"),
        (("run", "--seeds", "one"), "--seeds takes whole numbers"),
        (("run", "--seeds", "0,-1"), "from 0 to"),
        (("run", "--dataset", "cifar10-c"), "cifar-10-python.tar.gz"),
        (("corrupt", "--corruptions", "fogg", "--out", "x"), "did you mean 'fog'"),
        (("corrupt", "--severities", "1,six", "--out", "x"), "whole numbers"),
        (("list", "corruption"), "did you mean 'corruptions'"),
        (("stream", "--out", "fig.bmp"), ".png or .svg"),
        (("train", "--arch", "wrn", "--dataset", "digits", "--out", "a.safetensors"), "wrn-10-1"),
        ((*TRAIN, "--out", "a.pth"), ".safetensors"),
        ((*TRAIN, "--out", "/dev/null/a.safetensors"), "give another place"),
    ],
)
def test_mistakes_end_in_one_sentence_and_no_files(
    words: Sequence[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["rotta", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert expected in " ".join(capsys.readouterr().err.split())
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_every_command_explains_itself() -> None:
    for command in ("run", "list", "stream", "corrupt", "train"):
        shown = rotta(command, "--help").output
        assert shown.count("--") >= 1
        assert "Example" in shown or command == "list"


def test_help_shows_nothing_beside_flags_but_what_they_do() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert "bench" in commands
    for words in ((), *((name,) for name in commands)):
        shown = rotta(*words, "--help").output
        assert re.search(r"--help +Show this message", shown)
        assert "bool" not in shown
    assert re.search(r"--quick +The figures", rotta("bench", "--help").output)


def test_python_m_rotta_is_rotta() -> None:
    words = [sys.executable, "-m", "rotta", "run", "--severity", "6"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "error: severity must be 1, 2, 3, 4 or 5, not 6\n"
