"""When streams are written to the store, and how often one that refuses is asked."""

from typing import Any

from separate_models import SMALL, images, small_net

from rotta.pool import MemoryStore, Request, StreamPool

NAMES = ("a", "b", "c", "d")


class RefusingStore(MemoryStore):
    """Takes nothing of the streams that it refuses, and notes who was to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.tried: list[str] = []

    def put(self, name: str, data: bytes) -> None:
        self.tried.append(name)
        if name in self.refuses:
            raise OSError("no space left on device")
        super().put(name, data)

    def attempts(self) -> list[str]:
        """Since this was last asked."""
        tried, self.tried = self.tried, []
        return tried


def make(store: MemoryStore, **options: Any) -> StreamPool:
    return StreamPool(small_net(), 4, store=store, **SMALL | options)


def ask(pool: StreamPool, *names: str) -> None:
    pool([Request(name, images(2, seed)) for seed, name in enumerate(names)])


def pool_that_could_not_save() -> tuple[StreamPool, RefusingStore]:
    store = RefusingStore()
    pool = make(store, save_every=1)
    store.refuses = set(NAMES)
    ask(pool, *NAMES)
    assert set(pool.failed_saves) == set(NAMES)
    store.attempts()
    return pool, store


def test_a_full_store_is_asked_once_a_turn_and_for_another_stream_each_time() -> None:
    pool, store = pool_that_could_not_save()
    turns = []
    for _ in NAMES:
        ask(pool, *NAMES)  # who is due by now has failed before, and is not asked for besides
        turns.append(store.attempts())
    assert [len(tried) for tried in turns] == [1, 1, 1, 1]
    assert {tried[0] for tried in turns} == set(NAMES)
    assert set(pool.failed_saves) == set(NAMES)


def test_all_are_written_when_the_store_takes_them_again() -> None:
    pool, store = pool_that_could_not_save()
    ask(pool, *NAMES)
    store.attempts()
    store.refuses = set()
    pool.learn()
    assert sorted(store.attempts()) == sorted(NAMES)
    assert pool.failed_saves == {}
    again = make(store)
    assert [again.info(name).samples for name in NAMES] == [4, 4, 4, 4]  # as of now


def test_one_that_is_refused_for_its_own_sake_does_not_keep_the_others_from_it() -> None:
    pool, store = pool_that_could_not_save()
    store.refuses = {"a"}
    pool.learn()
    pool.learn()
    assert store.names() == ["b", "c", "d"]
    assert list(pool.failed_saves) == ["a"]


def test_frozen_streams_are_written_after_every_few_requests_too() -> None:
    store = RefusingStore()
    pool = make(store, save_every=3)
    ask(pool, "a")
    pool.freeze("a")
    store.attempts()
    written = []
    for _ in range(5):  # the second to the sixth
        ask(pool, "a")
        written.append(len(store.attempts()))
    assert written == [0, 1, 0, 0, 1]
    again = make(store)
    info = again.info("a")
    assert (info.requests, info.samples, info.frozen) == (6, 2, True)
    assert info.last_used == pool.info("a").last_used
