"""Clients that send too much, too little, or nothing at all."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import PATIENCE, digits, until

from rotta.client import Client
from rotta.serve import Limits, Service, connections, front, listen, load_model, run, serving

LIMITS = Limits(max_body=1 << 20, max_uploads=2 << 20)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Service:
    store = tmp_path_factory.mktemp("connections") / "state.sqlite"
    return Service(load_model("digits"), store=store, limits=LIMITS)


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with serving(service) as url:
        yield url


def connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE)


def begun(url: str, stream: str, size: int, missing: int = 1) -> socket.socket:
    """A request of which that much has arrived, and some bytes never do."""
    line = connected(url)
    words = (
        f"POST /v1/streams/{stream}/predict HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/octet-stream",
        f"Content-Length: {size + missing}",
    )
    line.sendall("\r\n".join((*words, "", "")).encode() + bytes(size))
    return line


def test_one_stream_cannot_take_all_room_for_uploads(service: Service, url: str) -> None:
    size = 900_000
    with begun(url, "hog", size):
        until(lambda: service.uploads.held == size)
        with begun(url, "hog", size, missing=0) as second:
            answer = b""
            while not answer.endswith(b"}"):
                answer += second.recv(1000)
            assert answer.startswith(b"HTTP/1.1 429")
            assert b"retry-after: 1" in answer
            assert b"too many images of stream hog" in answer
        assert Client(url).predict("calm", digits(64)).counters.requests == 1
    until(lambda: service.uploads.held == 0)
    with begun(url, "hog", size):
        until(lambda: service.uploads.held == size)  # has its share again
    until(lambda: service.uploads.held == 0)


def test_a_head_without_end(url: str) -> None:
    with connected(url) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        try:
            for _ in range(8):
                line.sendall(b"a" * (1 << 20))
        except OSError:
            return  # closed before all was sent
        assert line.recv(1000).startswith(b"HTTP/1.1 400")
    assert Client(url).health()["status"] == "ok"


@pytest.mark.parametrize(("more", "status"), [(0, b"200"), (1, b"400")])
@pytest.mark.parametrize("pieces", [1, 7])
def test_the_longest_head(url: str, more: int, status: bytes, pieces: int) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n"
    asked %= b"a" * (connections._HEAD_BYTES - len(asked) + 2 + more)
    size = -(-len(asked) // pieces)
    with connected(url) as line:
        for start in range(0, len(asked), size):
            line.sendall(asked[start : start + size])
        assert line.recv(1000).startswith(b"HTTP/1.1 " + status)


def test_heads_of_a_connection_count_one_by_one(url: str) -> None:
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 60_000 + b"\r\n\r\n"
    with connected(url) as line:
        answers = line.makefile("rb")
        for _ in range(30):
            line.sendall(asked)
            length = 0
            while (header := answers.readline()) != b"\r\n":
                if header.startswith(b"content-length:"):
                    length = int(header.split()[1])
            assert json.loads(answers.read(length))["status"] == "ok"


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: a\r\n"])
def test_who_says_nothing_is_not_waited_for(
    url: str, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.1)
    with connected(url) as line:
        line.sendall(sent)
        assert line.recv(1000) == b""


def test_an_answer_may_take_longer_than_a_head(
    service: Service, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.05)
    let_go = threading.Event()
    blocked = service.worker.ask(lambda _: let_go.wait(PATIENCE))
    with connected(url) as line:
        asked = b"GET /v1/streams HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line.sendall(asked + asked[:20])  # the second waits for the first
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1000)
        line.settimeout(PATIENCE)
        let_go.set()
        assert line.recv(1000).startswith(b"HTTP/1.1 200")
    assert blocked.result()


def test_who_is_told_to_end_while_it_starts_does(tmp_path: Path) -> None:
    class Told(Service):
        def start(self) -> None:
            super().start()
            os.kill(os.getpid(), signal.SIGTERM)

    service = Told(load_model("digits"), store=tmp_path / "state.sqlite")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    late = threading.Timer(PATIENCE, lambda: os.kill(os.getpid(), signal.SIGINT))
    late.start()
    try:
        assert run(service, listen("127.0.0.1", 0, token=None))
        assert late.is_alive()
    finally:
        late.cancel()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_the_end_does_not_wait_for_who_stops_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "_DROPPING_SECONDS", 0.1)
    service = Service(load_model("digits"), store=tmp_path / "state.sqlite")
    with serving(service) as url:
        line = begun(url, "stalled", 1000)
        until(lambda: service.uploads.held == 1000)
    with line:  # it was answered before all was over, and not after 30 seconds as too late
        assert line.recv(1000).startswith(b"HTTP/1.1 503")


def test_a_client_whose_server_was_started_again_notices_before_it_asks(tmp_path: Path) -> None:
    def service() -> Service:
        return Service(load_model("digits"), store=tmp_path / "state.sqlite")

    with serving(service()) as url:
        client = Client(url)
        client.predict("gate", digits(4))
    with serving(service(), port=int(url.rpartition(":")[2])):
        assert client.predict("gate", digits(4)).counters.requests == 2
