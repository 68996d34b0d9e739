"""``rotta serve`` as a person types it, up to where it would begin to serve."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotta.cli import app


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)


def serve(*words: str) -> Result:
    return CliRunner().invoke(app, ["serve", "--port", "0", *words], env={"COLUMNS": "200"})


def test_help_teaches() -> None:
    shown = serve("--help").output
    for word in ("curl -F images=@", "--store", "redis://", "ROTTA_TOKEN", "429", "kill -9"):
        assert word in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--host", "0.0.0.0"], "set ROTTA_TOKEN to listen on 0.0.0.0"),
        (["--host", "example.com"], "set ROTTA_TOKEN"),
        (["--host", "127.0.0.1", "--token", " "], "printable"),
        (["--host", "8.8.8.8", "--token", "secret"], "choose another --port or --host"),
        (["--method", "tent"], "only rotta serves"),
        (["--method", "rotta:speed=1"], "speed"),
        (["--model", "digit"], "did you mean 'digits'"),
        (["--store", "ftp://here"], "redis://host:port/number"),
        (["--store", "redis://127.0.0.1:1/0"], "start it, or check the address"),
        (["--resident", "8"], "raise resident, or lower max_batch"),
        (["--queue-per-stream", "8"], "lower max_images"),
    ],
)
def test_mistakes_end_in_one_sentence(words: list[str], says: str) -> None:
    done = serve(*words)
    assert isinstance(done.exception, ValueError)
    assert says in str(done.exception)
