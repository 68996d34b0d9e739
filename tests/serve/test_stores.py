"""Both stores keep their promises, and saving goes on when one fails."""

import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from live_server import digits, live_server, until

from rotta import load_source
from rotta.client import RefusedError
from rotta.pool import Request, StoreError, StreamPool
from rotta.serve.stores import Store, WriteBehind, open_store

needs_redis = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


class Redis:
    """A Redis of our own, whose data outlive it."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self.start()

    def start(self) -> None:
        words = ["--port", str(self.port), "--dir", str(self._folder), "--appendonly", "yes"]
        self.process = subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--save", "", *words],
            stdout=subprocess.DEVNULL,
        )
        until(self._answers)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            open_store(self.url).close()
        except StoreError:
            return False
        return True


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.stop()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=needs_redis)])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same store each time, after closing it."""
    url = str(tmp_path / "new" / "state.sqlite")
    if request.param == "redis":
        url = request.getfixturevalue("redis").url
    opened: list[Store] = []

    def reopen() -> Store:
        if opened:
            opened.pop().close()
        opened.append(open_store(url))
        return opened[0]

    yield reopen
    opened[0].write(dict.fromkeys(opened[0].names()))
    opened[0].close()


def test_what_is_put_is_there_the_next_time(reopened: Callable[[], Store]) -> None:
    store = reopened()
    assert store.names() == []
    large = bytes(range(256)) * 4000
    store.put("b", b"")
    store.put("a", b"old")
    store.write({"a": large, "c": b"1", "gone": None})
    store.delete("c")
    store.delete("never there")
    for _ in range(2):
        assert store.names() == ["a", "b"]
        assert (store.get("a"), store.get("b"), store.get("c")) == (large, b"", None)
        store = reopened()


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="redis://host"):
        open_store("http://localhost")
    with pytest.raises(StoreError, match=r"Redis at 127\.0\.0\.1:1 "):
        open_store("redis://user:password@127.0.0.1:1/0")
    for address in ("redis://user:password@host:port/0", "redis://:password@host/production"):
        with pytest.raises(ValueError, match=r"at host.* cannot be read: give one like") as wrong:
            open_store(address)
        assert "password" not in str(wrong.value)
    (tmp_path / "text").write_text("no database " * 100)
    with pytest.raises(StoreError, match="is no folder"):
        open_store(tmp_path / "text" / "state.sqlite")
    with pytest.raises(ValueError, match="no store of rotta"):
        open_store(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other") as other:
        other.execute("CREATE TABLE streams (something)")
    other.close()
    with pytest.raises(ValueError, match="no store of rotta"):
        open_store(tmp_path / "other")


def test_a_file_is_for_one_server(tmp_path: Path) -> None:
    first = open_store(tmp_path / "state.sqlite")
    with pytest.raises(ValueError, match="in use by another server"):
        open_store(tmp_path / "state.sqlite")
    first.close()
    open_store(tmp_path / "state.sqlite").close()


class Unreliable(Store):
    """Fails as long as it is told to."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.fails = False
        self.closed = False

    def get(self, name: str) -> bytes | None:
        self._try()
        return self.kept.get(name)

    def names(self) -> list[str]:
        self._try()
        return sorted(self.kept)

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        self._try()
        for name, data in changes.items():
            if data is None:
                self.kept.pop(name, None)
            else:
                self.kept[name] = data

    def close(self) -> None:
        self.closed = True

    def _try(self) -> None:
        if self.fails:
            raise StoreError("no room: make some")


def test_saving_catches_up_with_the_newest() -> None:
    store = Unreliable()
    behind = WriteBehind(store, first_wait=0.01, longest_wait=0.02)
    behind.put("a", b"1")
    behind.put("b", b"1")
    assert behind.flush(10)
    since = behind.saved_as_of("a")
    assert since is not None
    store.fails = True
    behind.put("a", b"2")
    behind.put("a", b"33")
    behind.delete("b")
    behind.put("c", b"4")
    until(lambda: behind.saving.failures >= 3)
    assert (behind.saving.problem, behind.saving.waiting) == ("no room: make some", 3)
    assert behind.saving.waiting_bytes == 3
    assert (behind.get("a"), behind.get("b"), behind.get("c")) == (b"33", None, b"4")
    assert behind.saved_as_of("a") == since
    with pytest.raises(StoreError):
        behind.get("unheard of")
    assert store.kept == {"a": b"1", "b": b"1"}
    store.fails = False
    until(lambda: behind.saving.waiting == 0)
    assert behind.saving.problem is None
    assert store.kept == {"a": b"33", "c": b"4"}
    assert behind.names() == ["a", "c"]
    assert (behind.saved_as_of("a") or 0) > since
    assert behind.saved_as_of("b") is None
    assert behind.close()
    assert store.closed


def test_memory_for_what_cannot_be_saved_is_bounded() -> None:
    store = Unreliable()
    behind = WriteBehind(store, first_wait=0.01, longest_wait=0.02, bound=100)
    store.fails = True
    behind.put("a", bytes(60))
    until(lambda: behind.saving.problem is not None)
    with pytest.raises(StoreError, match="no room"):
        behind.put("b", bytes(60))  # so a pool does not evict it
    behind.put("a", bytes(90))
    assert not behind.close(patience=0.05)
    assert store.kept == {}


class Slow(Unreliable):
    """Takes its time, and notes how much it was given at once."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.at_once: list[int] = []
        self._seconds = seconds

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        time.sleep(self._seconds)
        self.at_once.append(sum(len(data or b"") for data in changes.values()))
        super().write(changes)


def test_memory_is_bounded_too_if_the_store_is_only_slow() -> None:
    store = Slow(0.2)
    behind = WriteBehind(store, bound=100)
    behind.put("a", bytes(60))
    with pytest.raises(StoreError, match="slower than what is to be saved"):
        behind.put("b", bytes(60))
    behind.delete("c")  # takes no room
    behind.wait_for_room(patience=60)
    for number in range(4):
        behind.put(f"b{number}", bytes(60))
    assert behind.close(patience=60)
    assert sorted(store.kept) == ["a", "b0", "b1", "b2", "b3"]
    assert max(store.at_once) <= 100


def test_the_end_takes_as_long_as_the_store_gets_on() -> None:
    store = Slow(0.05)
    behind = WriteBehind(store)
    for number in range(64 * 12):
        behind.put(str(number), b"state")
    assert behind.close(patience=0.5)  # each write is quicker, all together are not
    assert len(store.kept) == 64 * 12


def test_large_states_do_not_go_together() -> None:
    store = Slow(0.05)
    behind = WriteBehind(store)
    for number in range(8):
        behind.put(str(number), bytes(30 << 20))
    assert behind.close()
    assert max(store.at_once) <= 64 << 20
    assert sum(store.at_once) == 8 * 30 << 20


def test_eviction_waits_while_nothing_can_be_saved() -> None:
    store = Unreliable()
    behind = WriteBehind(store, first_wait=0.01, longest_wait=0.02, bound=1 << 20)
    pool = StreamPool(load_source("digits"), 10, resident=1, store=behind)
    images = digits(2) / 255
    pool([Request("a", images)])
    assert behind.flush(10)
    store.fails = True
    behind.put("other", bytes(1 << 20))
    until(lambda: behind.saving.problem is not None)
    (refused,) = pool([Request("b", images)])
    assert isinstance(refused.error, StoreError)
    assert pool([Request("a", images)])[0].served
    assert pool.info("a").samples == 4
    store.fails = False
    until(lambda: behind.saving.waiting == 0)
    assert pool([Request("b", images)])[0].served
    assert pool.info("a").samples == 4  # from the store now
    assert behind.close()


def test_many_streams_are_written_together() -> None:
    store = Unreliable()
    behind = WriteBehind(store)
    for number in range(300):
        behind.put(f"{number:03}", str(number).encode())
    assert behind.close()
    assert store.kept == {f"{number:03}": str(number).encode() for number in range(300)}


@needs_redis
def test_redis_goes_and_comes_back(redis: Redis, tmp_path: Path) -> None:
    few = ("--resident", "2", "--max-batch", "2", "--max-images", "2")
    with live_server(tmp_path, "--store", redis.url, "--save-every", "1", *few) as server:
        client = server.client()
        for name in ("a", "b", "c"):  # one too many for memory
            client.predict(name, digits(2))
        until(lambda: client.health()["unsaved"] == 0)
        redis.stop()
        for _ in range(3):
            client.predict("b", digits(2))
            client.predict("c", digits(2))
        until(lambda: client.health()["status"] == "degraded")
        with pytest.raises(RefusedError) as refused:
            client.predict("a", digits(2))  # must not start anew: it has a state
        assert refused.value.status == 503
        assert client.predict("c", digits(2)).counters.requests == 5
        redis.start()
        until(lambda: client.health()["unsaved"] == 0)
        assert client.health()["status"] == "ok"
        assert server.client(patience=60).predict("a", digits(2)).counters.requests == 2
        assert server.end() == 0
    store = open_store(redis.url)
    assert store.names() == ["a", "b", "c"]
    store.write(dict.fromkeys(store.names()))
    store.close()
