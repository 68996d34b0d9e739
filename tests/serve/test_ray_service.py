"""The service on Ray, on this machine alone: as the local one, and after a replica was killed."""

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_server import digits, until
from ray_load import SAVE_EVERY, asking, assert_taught, wait_for_answers
from test_lives import OPTIONS, STREAMS, seen_by
from test_stores import Redis, needs_redis

from rotta import load_source
from rotta.client import Client, RefusedError
from rotta.pool import StreamPool
from rotta.serve import Service, load_model, open_store, serving
from rotta.serve.ray.service import RayService
from rotta.serve.schemas import HealthBody, OverviewBody, StreamsBody

pytestmark = needs_redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_as_the_local_engine_and_over_a_kill(redis: Redis, tmp_path: Path) -> None:
    service = RayService(
        load_model("digits"), store=redis.url, replicas=2, save_every=SAVE_EVERY, **OPTIONS
    )
    with serving(service) as url:
        as_the_local_engine(url, tmp_path / "state.sqlite")
        what_concerns_all_replicas(url)
        first, second = (service.router.holder(name)[0] for name in STREAMS[:2])
        assert first is not second
        for name in STREAMS:
            Client(url).delete(name)
        with asking(url) as cameras:
            wait_for_answers(cameras, 2 * SAVE_EVERY + 1)
            os.kill(first.process, signal.SIGKILL)
            wait_for_answers(cameras, 2 * SAVE_EVERY)
        assert_taught(cameras)
        assert first.gone
        assert not second.gone
        asked = {camera.name: len(camera.taught) + 1 for camera in cameras}
    store = open_store(redis.url)
    pool = StreamPool(load_source("digits"), 10, store=store, **OPTIONS)
    assert {name: pool.info(name).requests for name in pool.names()} == asked  # all was saved
    store.close()


def as_the_local_engine(url: str, file: Path) -> None:
    with serving(Service(load_model("digits"), store=file, **OPTIONS)) as local:
        for number in range(6):
            for name in STREAMS:
                here, there = (
                    Client(each).predict(name, seen_by(name, number), top=3)
                    for each in (local, url)
                )
                assert there.classes == here.classes
                assert there.counters == here.counters
                near = [each[0].probability for each in here.top]
                assert [each[0].probability for each in there.top] == pytest.approx(near, abs=2e-3)


def what_concerns_all_replicas(url: str) -> None:
    client = Client(url)
    assert client.streams() == STREAMS
    page = client._line.ask("GET", "/v1/streams", {"limit": 3})
    assert StreamsBody(**page).next == STREAMS[2]
    assert (page["total"], [row["last"]["images"] for row in page["streams"]]) == (4, [2, 2, 2])
    rest = client._line.ask("GET", "/v1/streams", {"limit": 3, "after": page["next"]})
    assert ([row["stream"] for row in rest["streams"]], rest["next"]) == ([STREAMS[3]], None)
    every = OverviewBody(**client._line.ask("GET", "/v1/overview", {"sort": "stream"}))
    assert [row.stream for row in every.streams] == STREAMS
    assert (every.matching, every.totals.known, every.health.status) == (4, 4, "ok")
    later = client._line.ask("GET", "/v1/overview", {"sort": "stream", "offset": 1, "limit": 2})
    assert [row["stream"] for row in later["streams"]] == STREAMS[1:3]
    until(lambda: client.health()["unsaved"] == 0)
    assert HealthBody(**client.health()).model_dump() == {
        "status": "ok",
        "saving": "ok",
        "unsaved": 0,
        "streams": 4,
    }
    for query, status in (({"limit": 0}, 422), ({}, 404)):
        path = "/v1/streams" if query else "/v1/streams/unheard-of"
        with pytest.raises(RefusedError) as refused:
            client._line.ask("GET", path, query)
        assert refused.value.status == status
    # the path counts, and not what a header makes of it
    request = urllib.request.Request(f"{url}/v1/streams", headers={"Host": "example.com/healthz?"})
    with pytest.raises(urllib.error.HTTPError) as foreign:
        urllib.request.urlopen(request)
    assert foreign.value.code == 403
    foreign.value.close()
    with pytest.raises(RefusedError) as too_many:
        client.predict("a", digits(65))
    assert too_many.value.status == 413


def test_what_replicas_cannot_share_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match="redis://HOST:PORT/NUMBER"):
        RayService(load_model("digits"), store=str(tmp_path / "state.sqlite"))


def test_states_of_another_model_are_refused(redis: Redis) -> None:
    pytest.importorskip("ray")
    another = redis.url.removesuffix("0") + "1"
    service = Service(load_model("digits"), store=another, alpha=0.3)
    service.start()
    service.worker.predict("other", digits(1)).result()
    service.stop()
    with pytest.raises(ValueError, match="give another --store"):
        RayService(load_model("digits"), store=another, alpha=0.2)


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_setting_that_replicas_refuse_is_told(redis: Redis) -> None:
    with pytest.raises(ValueError, match=r"could not start .*raise resident, or lower max_batch"):
        RayService(load_model("digits"), store=redis.url, replicas=1, resident=8, **OPTIONS)
