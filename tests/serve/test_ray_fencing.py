"""Who may write a stream: the replica that claimed it last, whatever an older one still does."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from live_server import digits
from test_stores import Redis, needs_redis

from rotta.pool import StoreError
from rotta.serve import load_model, open_store
from rotta.serve.ray.fenced_store import ClaimedStore, FencedStore, LostError
from rotta.serve.ray.messages import Answered, Asked
from rotta.serve.ray.replica import Replica

pytestmark = needs_redis


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    redis = Redis(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.stop()


@pytest.fixture
def url(server: Redis) -> str:
    store = open_store(server.url)
    store.write(dict.fromkeys(store.names()))
    store.close()
    return server.url


def test_an_older_claim_cannot_write_and_cannot_claim(url: str) -> None:
    old, new = FencedStore(url), FencedStore(url)
    assert old.claim("a", 10) is None
    assert old.claim("b", 11) is None
    old.write({"a": b"of old", "b": b"of old"})
    assert new.claim("a", 12) == b"of old"
    new.put("a", b"of new")
    old.write({"a": b"late", "b": b"newer"})  # of two, only what was lost is left out
    assert (new.get("a"), new.get("b")) == (b"of new", b"newer")
    assert (old.has_lost("a"), old.has_lost("b"), new.has_lost("a")) == (True, False, False)
    with pytest.raises(LostError):
        old.claim("a", 10)  # asked for long ago, and arrived only now
    assert new.claim("a", 12) == b"of new"  # asked twice, as after a lost answer
    old.close()
    new.close()


def test_what_was_deleted_stays_deleted(url: str) -> None:
    old, new = FencedStore(url), FencedStore(url)
    old.claim("gone", 20)
    old.put("gone", b"state")
    new.claim("gone", 21)
    new.delete("gone")
    old.put("gone", b"late")
    assert new.names() == []
    old.close()
    new.close()


def test_a_pool_sees_only_what_was_claimed(url: str) -> None:
    store = ClaimedStore(url)
    store.claim("a", 30)
    store.put("a", b"state")
    assert store.names() == ["a"]
    another = ClaimedStore(url)
    assert another.names() == []
    store.close()
    another.close()


def test_generations(url: str) -> None:
    first, second = FencedStore(url), FencedStore(url)
    mine = first.begin()
    assert first.generation() == mine
    assert not first.is_over(mine)
    assert second.begin() > mine
    assert first.is_over(mine)
    first.close()
    second.close()


def test_a_redis_that_has_forgotten_everything(url: str) -> None:
    old, new = FencedStore(url), FencedStore(url)
    mine = new.begin()
    old.claim("a", 35)
    new.claim("a", 36)
    new._redis.flushall()
    old.put("a", b"of old")
    new.put("a", b"of new")
    old.put("a", b"late")
    assert new.get("a") == b"of new"
    assert not new.is_over(mine)
    assert new.generation() == mine  # so that the next is newer
    old.close()
    new.close()


class Held:
    """A replica in this process, and its last answer."""

    def __init__(self, url: str, **options: Any) -> None:
        store = FencedStore(url)
        settings = {"save_every": 1, "capacity": 8, "update_every": 8, **options}
        self.replica = Replica(load_model("digits"), url, store.generation(), settings)
        store.close()

    async def predict(self, stream: str, epoch: int, start: int = 0) -> Answered:
        body = digits(2, start).numpy().tobytes()
        headers = [(b"content-type", b"application/octet-stream"), (b"host", b"127.0.0.1")]
        path, query = f"/v1/streams/{stream}/predict", b"shape=2,3,32,32&dtype=uint8"
        return await self.replica.answer(Asked("POST", path, query, headers, body), stream, epoch)

    async def delete(self, stream: str, epoch: int) -> Answered:
        headers = [(b"host", b"127.0.0.1")]
        asked = Asked("DELETE", f"/v1/streams/{stream}", b"", headers, b"")
        return await self.replica.answer(asked, stream, epoch)

    async def saved(self) -> None:
        service = self.replica._service
        service.worker.ask(lambda pool: None).result()  # the turn is over: it has learnt
        assert await asyncio.to_thread(service.saver.flush, 10)


def requests_of(answered: Answered) -> int:
    assert answered.status == 200, answered.body
    count: int = json.loads(answered.body)["counters"]["requests"]
    return count


def test_a_replica_that_comes_back_overwrites_nothing(url: str) -> None:
    async def lives() -> None:
        old, new = Held(url), Held(url)
        for number in range(3):
            assert requests_of(await old.predict("a", 40, 2 * number)) == number + 1
        await old.saved()
        # the old one hangs, and the stream is given to another
        assert requests_of(await new.predict("a", 41, 6)) == 4
        await new.saved()
        # the old one goes on, with a request that had reached it before
        await old.predict("a", 40, 8)
        await old.saved()
        refused = await old.predict("a", 40, 10)
        assert refused.status == 503
        assert (b"retry-after", b"1") in refused.headers
        assert (await old.predict("a", 42)).status == 503  # nor does it ever get it again
        assert requests_of(await new.predict("a", 41, 8)) == 5
        assert await new.replica.stop()
        await old.replica.stop()  # which saves what it has, or would like to
        third = Held(url)
        assert requests_of(await third.predict("a", 43)) == 6
        assert await third.replica.stop()

    asyncio.run(lives())


def test_requests_at_once_to_a_stream_that_is_taken_over(url: str) -> None:
    async def lives() -> None:
        first = Held(url)
        await first.predict("a", 50)
        assert await first.replica.stop()
        second = Held(url)
        answers = await asyncio.gather(*(second.predict("a", 51, 2 * n) for n in range(5)))
        assert sorted(map(requests_of, answers)) == [2, 3, 4, 5, 6]  # restored once, not again
        assert await second.replica.stop()

    asyncio.run(lives())


def test_a_damaged_state_is_refused_and_can_be_deleted(url: str) -> None:
    store = open_store(url)
    store.put("a", b"no state")
    store.close()

    async def lives() -> None:
        held = Held(url)
        refused = await held.predict("a", 60)
        assert refused.status == 409
        assert b"DELETE the stream" in refused.body
        assert (await held.delete("a", 60)).status == 204
        assert requests_of(await held.predict("a", 60)) == 1
        assert await held.replica.stop()

    asyncio.run(lives())


def test_without_the_store_no_stream_is_taken_over(server: Redis, url: str) -> None:
    async def lives() -> None:
        held = Held(url)
        assert requests_of(await held.predict("a", 70)) == 1
        server.stop()
        assert requests_of(await held.predict("a", 70)) == 2  # is in memory
        assert (await held.predict("b", 71)).status == 503  # nobody knows whether it has a state
        server.start()
        assert requests_of(await held.predict("b", 71)) == 1
        assert await held.replica.stop()

    asyncio.run(lives())


def test_another_redis_is_noticed(url: str) -> None:
    with pytest.raises(ValueError, match="means the same everywhere"):
        Replica(load_model("digits"), url, 10**6, {})
    with pytest.raises(StoreError):
        Replica(load_model("digits"), "redis://127.0.0.1:1/0", 1, {})
