"""Streams are created, asked, watched, put back, kept elsewhere and deleted."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from separate_models import SMALL, SeparateModels, close, images, same_logits, small_net
from torch import nn

from rotta.guard.guard import LOOK_EVERY
from rotta.pool import (
    MemoryStore,
    Prediction,
    Request,
    StoreError,
    StreamPool,
    engine,
    stream_seed,
)
from rotta.pool.numbers import TEACHER

CLASSES = 4


def make(**options: Any) -> StreamPool:
    return StreamPool(small_net(), CLASSES, **SMALL | options)


def ask(pool: StreamPool, *names: str, count: int = 3, seed: int = 0) -> list[Prediction]:
    return pool([Request(name, images(count, seed + i)) for i, name in enumerate(names)])


class FullStore(MemoryStore):
    """Takes nothing while it is full."""

    full = False

    def put(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError("no space left on device")
        super().put(name, data)


def test_bad_requests_carry_their_error_and_the_others_are_served() -> None:
    pool, alone = make(), make()
    ask(pool, "known", seed=1)
    ask(alone, "known", seed=1)
    bad = {
        "nan": images(2, 0) * torch.nan,
        "bright": images(2, 0) * 255,
        "single": images(2, 0).float(),
        "flat": images(2, 0)[0],
        "empty": images(2, 0)[:0],
        "grey": images(2, 0)[:, :1],
        "tiny": images(2, 0, side=2),
    }
    requests = [Request(name, x) for name, x in bad.items()]
    *refused, served = pool([*requests, Request("known", images(4, 2))])
    (expected,) = alone([Request("known", images(4, 2))])
    assert served.served
    assert torch.equal(served.logits, expected.logits)  # type: ignore[arg-type]
    for answer in refused:
        assert isinstance(answer.error, ValueError), answer
        assert answer.logits is None
    assert pool.names() == ["known"]


def test_a_stream_keeps_to_its_shape_until_it_is_reset() -> None:
    pool = make()
    ask(pool, "a")
    other = Request("a", images(2, 0, side=10))
    (refused,) = pool([other])
    assert "reset" in str(refused.error)
    pool.reset("a")
    assert pool([other])[0].served


def test_an_odd_name_is_refused_before_anything_happens() -> None:
    pool = make()
    with pytest.raises(ValueError, match="a stream's name is a string, not 1"):
        pool([Request("a", images(1, 0)), Request(1, images(1, 0))])  # type: ignore[arg-type]
    assert pool.names() == []


def test_images_that_are_not_dense_are_refused_alone() -> None:
    pool = make()
    good, bad = pool([Request("a", images(1, 0)), Request("b", images(1, 0).to_sparse())])
    assert good.served
    assert "to_dense" in str(bad.error)


def test_a_call_names_a_stream_once_and_not_more_than_there_is_room_for() -> None:
    pool = make(resident=2, store=MemoryStore())
    with pytest.raises(ValueError, match="'a' occurs twice"):
        ask(pool, "a", "a")
    with pytest.raises(ValueError, match="higher resident"):
        ask(pool, "a", "b", "c")
    assert pool.names() == []


def test_without_a_store_the_last_place_is_the_last() -> None:
    pool = make(resident=1)
    ask(pool, "a")
    (refused,) = ask(pool, "b")
    assert isinstance(refused.error, ValueError)
    assert "store" in str(refused.error)
    with pytest.raises(ValueError, match="store"):
        pool.evict("a")
    assert pool.names() == ["a"]
    pool.delete("a")
    assert ask(pool, "b")[0].served


def test_frozen_streams_predict_and_never_learn() -> None:
    pool = make()
    ask(pool, "a", count=9)
    pool.freeze("a")
    before = pool.state("a")
    first, second = (ask(pool, "a", seed=5)[0].logits for _ in range(2))
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    info = pool.info("a")
    assert (info.frozen, info.samples, info.requests) == (True, 9, 3)
    pool.freeze("a", False)
    assert pool.learn() == []
    pool.restore("a", before)
    assert pool.info("a").frozen


def test_learning_tells_who_was_updated() -> None:
    pool = make()
    requests = [Request("many", images(6, 0)), Request("few", images(2, 1))]
    pool.predict(requests)
    assert pool.info("many").samples == 0
    assert pool.learn() == ["many"]
    assert pool.learn() == []
    assert (pool.info("many").updates, pool.info("few").updates) == (1, 0)


def test_learning_tells_what_guards_have_news_of() -> None:
    """Of a stream that shows nothing there are no updates, but somebody should look."""
    pool = make(guard=True)
    told = []
    for turn in range(3):
        pool.predict([Request("covered", images(32, turn, side=32))])
        told.append(pool.learn())
    assert told == [[], ["covered"], []]
    assert pool.info("covered").updates == 0


def looked_at(pool: StreamPool) -> None:
    """A stream up to its guard's first look, of parameters that are far from where they were."""
    for turn in range(LOOK_EVERY):
        if turn == LOOK_EVERY - 1:
            stream = pool._residents.here("a")
            assert stream is not None
            pool._engine.numbers.of(stream.row)[TEACHER][2:] *= 50
        pool([Request("a", images(6, turn))])


def test_what_a_guard_saw_last_is_judged_before_a_stream_is_frozen() -> None:
    """Or it would answer as it was harmed for as long as it is frozen."""
    pool = make(guard=True)
    looked_at(pool)
    assert pool.info("a").events == []
    pool.freeze("a")
    assert [event["cause"] for event in pool.info("a").events] == ["too far"]
    assert pool.info("a").parameter_distance == 0


def test_what_a_guard_saw_last_is_judged_before_it_is_forgotten() -> None:
    """Or it would be held against what is learnt after a periodic reset."""
    pool = make(guard=True, reset_every=6 * LOOK_EVERY)
    looked_at(pool)
    assert [event["cause"] for event in pool.info("a").events] == ["too far"]
    pool([Request("a", images(6, 99))])
    assert len(pool.info("a").events) == 1
    assert pool.info("a").samples == 6 * (LOOK_EVERY + 1)


def test_learning_pass_by_pass_keeps_nobody_waiting_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who only fills its bank need not wait; of the others, two at a time, the oldest first."""
    monkeypatch.setattr(engine, "_LEARNT_AT_ONCE", 2 * SMALL["capacity"])
    store = MemoryStore()
    pool, at_once = make(store=store, save_every=1), make()
    names = ["a", "b", "c", "d", "e"]
    requests = [Request(name, images(6, seed)) for seed, name in enumerate(names)]
    requests.insert(1, Request("few", images(1, 9)))
    pool.predict(requests)
    begun = {name: store.get(name) for name in names}
    assert pool.waiting == 6
    assert pool.learn(one_pass=True) == ["a", "b"]
    assert pool.info("few").samples == 1
    assert pool.waiting == 3
    saved = [name for name in names if store.get(name) != begun[name]]
    assert saved == ["a", "b"]  # what a stream has not learnt is in no save
    pool.predict([Request("e", images(1, 7))])  # does not wait for its turn
    assert pool.learn(one_pass=True) == ["e", "c", "d"]
    assert pool.waiting == 0
    at_once(requests)
    at_once([Request("e", images(1, 7))])
    again = [Request(name, images(2, 8)) for name in (*names, "few")]
    for one, other in zip(pool.predict(again), at_once.predict(again), strict=True):
        assert one.logits is not None
        assert other.logits is not None
        torch.testing.assert_close(one.logits, other.logits, rtol=1e-6, atol=1e-6)


def test_what_was_learnt_on_the_way_is_told_later() -> None:
    pool = make()
    pool.predict([Request("a", images(6, 0))])
    pool.predict([Request("a", images(1, 1))])  # learns the six first
    assert pool.info("a").updates == 1
    assert pool.learn() == ["a"]


def test_a_reset_forgets_what_was_not_learnt_yet() -> None:
    pool, fresh = make(), make()
    pool.predict([Request("a", images(6, 0))])
    pool.reset("a")
    assert pool.learn() == []
    assert pool.info("a").samples == 0
    assert same_logits(ask(pool, "a"), [p.logits for p in ask(fresh, "a")], 0)  # type: ignore[misc]


def test_info_and_bank_are_what_the_separate_model_has() -> None:
    pool = make()
    separate = SeparateModels(small_net(), CLASSES, **SMALL)
    for seed in range(4):
        request = [Request("a", images(5, seed))]
        pool(request)
        (logits,) = separate(request)
    info, bank, model = pool.info("a"), pool.bank("a"), separate.models["a"]
    size = model.bank.size()
    assert (info.samples, info.updates, info.requests) == (20, model.updates, 4)
    assert info.bank_ages == model.bank.age[:size].tolist()
    assert sum(info.bank_by_class) == size == len(bank.labels)
    assert sum(info.lately) == pytest.approx(
        sum(5 * 0.5 ** (5 * (3 - turn) / 64) for turn in range(4))
    )
    p = logits.softmax(1)
    assert info.entropy == pytest.approx(float(-(p * (p + 1e-6).log()).sum(1).mean()))
    assert info.statistics_distance > 0
    assert info.parameter_distance > 0
    close(bank.images, model.bank.images[:size], 0)
    assert bank.ages.tolist() == info.bank_ages


@pytest.mark.parametrize("does", ["info", "bank", "reset", "freeze", "delete", "evict", "state"])
def test_an_unknown_stream_is_named(does: str) -> None:
    call: Callable[[str], object] = getattr(make(store=MemoryStore()), does)
    with pytest.raises(ValueError, match="there is no stream 'nobody'"):
        call("nobody")


def test_streams_are_stored_when_they_begin_and_after_every_few_requests() -> None:
    store = MemoryStore()
    pool = make(store=store, save_every=3)
    pool.predict([Request("a", images(2, 0))])
    saved = [store.get("a")]
    assert saved[0] is not None
    for seed in range(1, 5):
        pool.learn()
        if store.get("a") != saved[-1]:
            saved.append(store.get("a"))
        pool.predict([Request("a", images(2, seed))])
    assert len(saved) == 2  # after the third request
    pool.close()
    again = make(store=store)
    assert again.names() == ["a"]
    assert again.resident == 0
    assert again.info("a").samples == 10


def test_idle_streams_are_evicted_and_come_back() -> None:
    pool = make(store=MemoryStore())
    ask(pool, "a", "b")
    assert pool.evict_idle(3600) == []
    assert sorted(pool.evict_idle(0)) == ["a", "b"]
    assert (pool.resident, len(pool), pool.info("a").resident) == (0, 2, False)
    assert ask(pool, "a")[0].served
    assert pool.info("a").samples == 6


def test_a_deleted_stream_is_gone_everywhere() -> None:
    store = MemoryStore()
    pool = make(store=store)
    ask(pool, "a", "b")
    pool.evict("a")
    for name in ("a", "b"):
        pool.delete(name)
    assert (pool.names(), store.names(), "a" in pool) == ([], [], False)


def test_a_store_that_fails_costs_no_prediction_and_no_state() -> None:
    store = FullStore()
    pool = make(store=store, resident=2)
    store.full = True
    assert all(answer.served for answer in ask(pool, "a", "b"))
    assert set(pool.failed_saves) == {"a", "b"}
    (refused,) = ask(pool, "c")
    assert isinstance(refused.error, StoreError)
    with pytest.raises(StoreError, match="no space left"):
        pool.evict("a")
    assert pool.info("a").resident
    store.full = False
    pool.learn()
    assert pool.failed_saves == {}
    assert ask(pool, "c")[0].served
    assert store.names() == ["a", "b", "c"]


def test_seeds_differ_and_are_the_same_everywhere() -> None:
    assert stream_seed(0, "camera") == 5947156217249062750
    assert len({stream_seed(seed, name) for seed in (0, 1) for name in "abc"}) == 6


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nu": 2.0}, "nu must be"),
        ({"robust_norm": False}, "leave it out"),
        ({"bad_input": "skip"}, "leave it out"),
        ({"capaciti": 3}, "did you mean 'capacity'"),
        ({"resident": 0}, "resident must be 1 or more"),
        ({"save_every": -1}, "save_every must be 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make(**options)


def test_a_network_of_which_rotta_trains_more_is_refused() -> None:
    net = nn.Sequential(*small_net(), nn.LayerNorm(CLASSES))
    with pytest.raises(ValueError, match="a RoTTA for each stream"):
        StreamPool(net, CLASSES)


def test_threads_may_watch_while_one_works() -> None:
    pool, errors, done = make(store=MemoryStore(), resident=3), [], threading.Event()

    def watch() -> None:
        try:
            while not done.is_set():
                for name in pool.names():
                    pool.info(name)
                    pool.bank(name)
        except Exception as error:
            errors.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for turn in range(12):
        ask(pool, f"s{turn % 5}", f"s{(turn + 1) % 5}", seed=turn)
    done.set()
    watcher.join()
    assert errors == []
    assert len(pool) == 5


def test_it_works_under_inference_mode() -> None:
    pool, plain = make(), make()
    with torch.inference_mode():
        for seed in range(3):
            ask(pool, "a", count=6, seed=seed)
    for seed in range(3):
        ask(plain, "a", count=6, seed=seed)
    assert pool.info("a").updates == 3
    close(pool.bank("a").uncertainties, plain.bank("a").uncertainties, 0)


def test_the_network_that_was_given_stays_as_it_was() -> None:
    net = small_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    pool = StreamPool(net, CLASSES, **SMALL)
    for seed in range(3):
        ask(pool, "a", count=6, seed=seed)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
