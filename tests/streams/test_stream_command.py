"""``rotta stream`` and ``rotta list streams`` for streams that arrive in different ways."""

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from rotta.cli import app
from rotta.streams import ARRIVALS, SETTINGS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def rotta(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def test_list_shows_settings_and_arrivals() -> None:
    lines = rotta("list", "streams").output.splitlines()
    for kind, names in (("setting", SETTINGS), ("arrival", ARRIVALS)):
        for name in names:
            assert any(line.split()[:2] == [name, kind] for line in lines), name


def test_one_row_per_arrival_and_delta(tmp_path: Path) -> None:
    heights = []
    for arrivals in ("burst", "all"):
        words = ("--limit", "50", "--order", "fog,snow", "--length", "9", "--deltas", "1,0.1")
        done = rotta("stream", *words, "--arrivals", arrivals)
        assert done.exit_code == 0, done.output
        assert "stream.png: 100 samples, 2 domains" in done.output
        with Image.open(tmp_path / "stream.png") as picture:
            heights.append(picture.height)
    rows = 2 * (len(ARRIVALS) - 1)
    assert heights[1] - heights[0] > rows * 200
    assert not list((tmp_path / "cache").rglob("*.npy"))  # labels are enough for a picture


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--arrivals", "brust"), "did you mean 'burst'"),
        (("--arrivals", ""), "no arrival was named"),
        (("--arrivals", "burst", "--length", "0"), "length must be 1 or more"),
        (("--arrivals", "long-tail", "--imbalance", "0"), "imbalance must be 1 or more"),
        (("--length", "9"), "length means nothing to arrival steady: leave it out, or choose"),
        (("--arrivals", "burst,freeze", "--imbalance", "9"), "nothing to arrival burst, freeze"),
        (("--arrivals", "gradual", "--dataset", "digits"), "choose a corrupted dataset"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(words: tuple[str, ...], expected: str) -> None:
    error = rotta("stream", *words).exception
    assert isinstance(error, ValueError)
    assert expected in str(error)
