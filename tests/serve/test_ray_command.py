"""``rotta serve --engine ray`` as a person types it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import digits, live_server
from test_stores import Redis, needs_redis
from typer.testing import CliRunner

from rotta.cli import app
from rotta.client import Client, RefusedError


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--engine", "spark"], "--engine is one of local, ray, not 'spark'"),
        (["--replicas", "3"], "add --engine ray"),
        (["--ray-address", "auto"], "add --engine ray"),
        (["--engine", "ray"], "--store redis://HOST:PORT/NUMBER"),
        (["--engine", "ray", "--store", "unix:///redis"], "--store redis://HOST:PORT/NUMBER"),
        (["--engine", "ray", "--store", "redis://127.0.0.1:1/0"], "start it, or check the address"),
    ],
)
def test_mistakes_end_in_one_sentence(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["serve", "--port", "0", *words])
    assert isinstance(done.exception, ValueError)
    assert says in str(done.exception)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    redis = Redis(tmp_path)
    yield redis
    redis.stop()


@needs_redis
@pytest.mark.slow
def test_from_the_command_to_sigterm_and_again(redis: Redis, tmp_path: Path) -> None:
    words = ("--engine", "ray", "--replicas", "2", "--store", redis.url, "--save-every", "100")
    for life in range(2):
        with live_server(tmp_path, *words, token="secret") as server:
            client = server.client()
            for number in range(3):
                for name in ("a", "b"):
                    answer = client.predict(name, digits(2, 2 * number))
                    assert answer.counters.requests == 3 * life + number + 1
            with pytest.raises(RefusedError, match="say who you are"):
                Client(server.url).streams()
            assert Client(server.url).health()["status"] == "ok"
            assert server.end() == 0


@needs_redis
@pytest.mark.slow
def test_a_cluster_that_is_not_there(redis: Redis, tmp_path: Path) -> None:
    words = ["--engine", "ray", "--store", redis.url, "--ray-address", "127.0.0.1:1"]
    done = CliRunner().invoke(app, ["serve", "--port", "0", *words])
    assert isinstance(done.exception, ValueError)
    assert "leave --ray-address out" in str(done.exception)
