"""What a server keeps: over a kill, an orderly end, a full disk."""

import signal
import threading
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from live_server import LiveServer, digits, in_threads, live_server, until
from torch import Tensor

from rotta import load_source
from rotta.pool import Request, StreamPool
from rotta.serve import Service, load_model, open_store
from rotta.serve.refusals import Refusal

OPTIONS: dict[str, Any] = {"capacity": 8, "update_every": 8, "alpha": 0.3}
METHOD = ("--method", "rotta:" + ":".join(f"{key}={value}" for key, value in OPTIONS.items()))
STREAMS = [f"camera-{number}" for number in range(4)]
IMAGES = 2


def seen_by(stream: str, request: int) -> Tensor:
    """The images of a stream's request; each stream has a light of its own."""
    light = 0.4 + 0.2 * STREAMS.index(stream)
    return digits(IMAGES, start=IMAGES * (request % 40)) / 255 * light


def replayed(requests: dict[str, int]) -> StreamPool:
    """What streams must be like after so many requests."""
    pool = StreamPool(load_source("digits"), 10, **OPTIONS)
    for number in range(max(requests.values())):
        going = [name for name, total in requests.items() if number < total]
        pool([Request(name, seen_by(name, number)) for name in going])
    return pool


def probabilities(server: LiveServer, stream: str, request: int) -> Tensor:
    answer = server.client().predict(stream, seen_by(stream, request), top=10)
    by_class = [sorted(ranked, key=lambda each: each.number) for ranked in answer.top]
    return torch.tensor([[each.probability for each in ranked] for ranked in by_class])


def assert_equal_to_replay(server: LiveServer, requests: dict[str, int]) -> None:
    pool = replayed(requests)
    infos = {name: server.client().info(name) for name in requests}
    for name, number in requests.items():
        expected = pool.info(name)
        assert infos[name].requests == number
        assert infos[name].bank_ages == expected.bank_ages
        assert infos[name].updates == expected.updates > 0
        assert infos[name].lately == pytest.approx(expected.lately, abs=1e-3)
    predicted = pool.predict([Request(name, seen_by(name, n)) for name, n in requests.items()])
    logits = torch.cat([each.logits for each in predicted if each.logits is not None])
    own = torch.cat([probabilities(server, name, n) for name, n in requests.items()])
    assert torch.allclose(own, logits.softmax(dim=1), atol=2e-3)
    means = [round(info.statistics_distance or 0, 4) for info in infos.values()]
    assert len(set(means)) == len(means)  # or else a mix-up would not be seen


class Load:
    """A client for each stream, which asks until nobody answers."""

    def __init__(self, server: LiveServer, start: dict[str, int]) -> None:
        self.answered_at: dict[str, list[float]] = {name: [] for name in STREAMS}
        self.saved_as_of = dict.fromkeys(STREAMS, 0.0)
        self._server = server
        self._start = start
        self._enough = threading.Event()

    def until_ended_by(self, number: int) -> None:
        ending = [partial(self._end, number)]
        assert not in_threads([partial(self._ask, name) for name in STREAMS] + ending)

    def _ask(self, name: str) -> None:
        client = self._server.client()
        for number in count(self._start[name]):
            try:
                client.predict(name, seen_by(name, number))
                self.answered_at[name].append(time.time())
                if number % 4 == 3:
                    self.saved_as_of[name] = client.info(name).saved_as_of or 0.0
            except ConnectionError:
                return
            if min(map(len, self.answered_at.values())) >= 9:
                self._enough.set()

    def _end(self, number: int) -> None:
        assert self._enough.wait(60)
        assert self._server.end(number) == (0 if number == signal.SIGTERM else -number)


def test_kill_under_load_then_an_orderly_end_under_load(tmp_path: Path) -> None:
    words = (*METHOD, "--store", "state.sqlite", "--save-every", "3")
    with live_server(tmp_path, *words) as first:
        load = Load(first, dict.fromkeys(STREAMS, 0))
        load.until_ended_by(signal.SIGKILL)
    with live_server(tmp_path, *words) as second:
        client = second.client()
        assert client.streams() == STREAMS
        requests = {name: client.info(name).requests for name in STREAMS}
        for name in STREAMS:
            safe = sum(at < load.saved_as_of[name] for at in load.answered_at[name])
            assert 1 <= safe <= requests[name] <= len(load.answered_at[name]) + 1
            assert not client.info(name).resident
        assert_equal_to_replay(second, requests)
        with pytest.raises(ValueError, match="in use by another server: stop that one"):
            open_store(tmp_path / "state.sqlite")
        after_replay = {name: number + 1 for name, number in requests.items()}
        load = Load(second, after_replay)
        load.until_ended_by(signal.SIGTERM)
    every_answer = {n: after_replay[n] + len(load.answered_at[n]) for n in STREAMS}
    assert requests_in(tmp_path / "state.sqlite") == every_answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_told_to_end_again_and_again_saves_all_the_same(tmp_path: Path, number: int) -> None:
    with live_server(tmp_path, *METHOD, "--store", "state.sqlite") as server:
        for request in range(3):
            for name in STREAMS:
                server.client().predict(name, seen_by(name, request))
        while server.process.poll() is None:
            server.process.send_signal(number)
            time.sleep(0.001)
        assert server.end(number) == 0
    assert requests_in(tmp_path / "state.sqlite") == dict.fromkeys(STREAMS, 3)


def requests_in(file: Path) -> dict[str, int]:
    """What a server would find there."""
    store = open_store(file)
    pool = StreamPool(load_source("digits"), 10, store=store, **OPTIONS)
    found = {name: pool.info(name).requests for name in pool.names()}
    store.close()
    return found


def test_a_full_disk(tmp_path: Path) -> None:
    words = (*METHOD, "--store", "state.sqlite", "--save-every", "1")
    with live_server(tmp_path, *words) as server:
        client = server.client()
        client.predict("early", digits(IMAGES))
        until(lambda: client.info("early").saved_as_of is not None)
        server.limit_file_size(4096)
        for number in range(12):
            for name in ("early", "late"):
                assert client.predict(name, digits(IMAGES)).counters.requests >= number
        until(lambda: client.health()["status"] == "degraded")
        health = client.health()
        assert (health["saving"], health["unsaved"]) == ("failing", 2)
        assert "wait to be saved" in server.log.read_text()
        assert client.info("late").saved_as_of is None
        server.limit_file_size(1 << 40)
        until(lambda: client.health() == {**health, "status": "ok", "saving": "ok", "unsaved": 0})
        assert "saving works again" in server.log.read_text()
        server.end(signal.SIGKILL)
    assert requests_in(tmp_path / "state.sqlite") == {"early": 13, "late": 12}


def test_states_of_another_model_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    service = Service(load_model("digits"), store=file, alpha=0.3)
    service.start()
    service.worker.predict("a", digits(1)).result()
    assert service.stop()
    with pytest.raises(ValueError, match="give another --store"):
        Service(load_model("digits"), store=file, alpha=0.2)
    again = Service(load_model("digits"), store=file, alpha=0.3)  # was let go of
    assert again.stop()


def test_a_damaged_stream_does_not_keep_the_others_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    service = Service(load_model("digits"), store=file)
    service.start()
    for name in ("a", "b"):
        service.worker.predict(name, digits(1)).result()
    assert service.stop()
    store = open_store(file)
    store.put("a", (store.get("a") or b"")[:5000])
    store.close()
    again = Service(load_model("digits"), store=file)
    again.start()
    with pytest.raises(Refusal, match=r"is damaged .*DELETE the stream") as refused:
        again.worker.predict("a", digits(1)).result()
    assert refused.value.status == 409
    assert again.worker.predict("b", digits(1)).result().counters.requests == 2
    assert again.stop()
