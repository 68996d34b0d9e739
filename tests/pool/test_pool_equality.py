"""A pool is to each stream what a RoTTA of its own would be."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from separate_models import (
    SMALL,
    SeparateModels,
    check_same_state,
    close,
    images,
    same_logits,
    small_net,
)
from torch import Tensor, nn

from rotta.models import build, load_source
from rotta.pool import MemoryStore, Request, StreamPool

CLASSES = 4
NAMES = "abcdef"
EXACT = 1e-6  # in double precision; PyTorch's Adam reckons in single precision here and there

Sizes = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 15), min_size=1)
Actions = st.one_of(
    st.tuples(st.just("call"), Sizes),
    st.tuples(st.just("predict"), Sizes),
    st.tuples(st.sampled_from(["freeze", "thaw", "reset", "evict"]), st.sampled_from(NAMES)),
)


class Both:
    """A pool and the separate models, treated alike."""

    def __init__(self, **options: Any) -> None:
        net = small_net()
        self.separate = SeparateModels(net, CLASSES, **SMALL | options)
        self.store = MemoryStore()
        self.pool = StreamPool(net, CLASSES, store=self.store, resident=6, **SMALL | options)
        self._seed = 0

    def call(self, sizes: dict[str, int]) -> None:
        self.predict(sizes)
        self.pool.learn()

    def predict(self, sizes: dict[str, int]) -> None:
        requests = [Request(name, self._images(size)) for name, size in sizes.items()]
        assert same_logits(self.pool.predict(requests), self.separate(requests), EXACT)

    def freeze(self, name: str) -> None:
        self.pool.freeze(name)
        self.separate.freeze(name)

    def thaw(self, name: str) -> None:
        self.pool.freeze(name, False)
        self.separate.frozen.discard(name)

    def reset(self, name: str) -> None:
        self.pool.reset(name)
        self.separate.models[name].reset()

    def evict(self, name: str) -> None:
        self.pool.evict(name)
        assert not self.pool.info(name).resident

    def check(self) -> None:
        for name, model in self.separate.models.items():
            check_same_state(self.pool, name, model, EXACT)

    def _images(self, count: int) -> torch.Tensor:
        self._seed += 1
        return images(count, self._seed)


@settings(max_examples=20)
@given(st.lists(Actions, min_size=1, max_size=10))
def test_any_schedule_gives_what_separate_models_give(actions: list[tuple[str, Any]]) -> None:
    both = Both()
    for name, what in actions:
        if isinstance(what, dict) or what in both.pool:
            getattr(both, name)(what)
    both.check()


@pytest.mark.parametrize(
    "options",
    [
        {"guard": True, "lr": 3.0, "nu": 0.5},
        {"reset_every": 40, "lambda_t": 0.0},
        {"guard": True, "lr": 3.0, "nu": 0.5, "reset_every": 40},
    ],
    ids=["guarded", "reset", "both"],
)
def test_a_long_run_gives_what_separate_models_give(options: dict[str, Any]) -> None:
    both, draws = Both(**options), random.Random(0)
    for turn in range(50):
        asking = draws.sample(NAMES, draws.randint(1, 6))
        both.call({name: draws.choice([1, 1, 2, 5, 13]) for name in asking})
        if turn % 7 == 3:
            both.evict(draws.choice(asking))
        if turn % 20 == 11:
            both.reset(draws.choice(asking))
        if turn % 10 == 5:
            draws.choice([both.freeze, both.thaw])(draws.choice(asking))
    both.check()
    if "guard" in options:
        alarms = [event for name in NAMES for event in both.pool.info(name).events]
        assert {"roll back", "reset"} & {event["action"] for event in alarms}


def test_more_streams_than_places_in_memory_go_on_from_the_store() -> None:
    net = small_net()
    pool = StreamPool(net, CLASSES, resident=2, store=MemoryStore(), **SMALL)
    separate = SeparateModels(net, CLASSES, **SMALL)
    for turn in range(14):
        requests = [Request(f"s{(turn + i) % 5}", images(3, 2 * turn + i)) for i in range(2)]
        predictions = pool.predict(requests)
        assert same_logits(predictions, separate(requests), EXACT)
        if turn % 2:  # else evicted streams have something left to learn
            pool.learn()
    assert pool.resident == 2
    for name, model in separate.models.items():
        check_same_state(pool, name, model, EXACT)


def test_streams_with_images_of_different_sizes_are_served_in_one_call() -> None:
    both = Both()
    for turn in range(8):
        sides = {"small": 8, "large": 12}
        requests = [Request(n, images(4, turn, side=side)) for n, side in sides.items()]
        assert same_logits(both.pool(requests), both.separate(requests), EXACT)
    both.check()


def test_images_that_show_nothing_are_left_out_as_separate_models_do() -> None:
    both = Both(guard=True)
    for turn in range(18):
        noise = images(12, turn, side=32)
        picture = noise.cumsum(dim=3).div(32)  # neighbours are alike
        mixed = torch.where(torch.arange(12).view(-1, 1, 1, 1) % 2 == 0, noise, picture)
        blind = noise if 6 <= turn < 12 else picture
        requests = [Request("blind", blind), Request("mixed", mixed), Request("well", picture[:4])]
        assert same_logits(both.pool(requests), both.separate(requests), EXACT)
    both.check()
    assert both.pool.info("blind").samples == 12 * 12
    assert both.pool.info("mixed").samples == 18 * 12
    events = both.pool.info("blind").events
    assert [event["action"] for event in events] == ["leave out", "learn again"]


def test_a_real_network_in_single_precision_is_equal_to_rounding() -> None:
    net = load_source("digits")
    options: dict[str, Any] = {"capacity": 16, "update_every": 16}
    pool, separate = StreamPool(net, 10, **options), SeparateModels(net, 10, **options)
    x = torch.rand(9, 3, 4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for some in x:
        requests = [Request(str(i), each[: i + 2]) for i, each in enumerate(some)]
        assert same_logits(pool(requests), separate(requests), 1e-4)
    for name, model in separate.models.items():
        contents, held = pool.bank(name), slice(model.bank.size())
        assert contents.labels.tolist() == model.bank.label[held].tolist()
        assert contents.ages.tolist() == model.bank.age[held].tolist()
        assert pool.info(name).updates == model.updates > 0
        close(contents.images, model.bank.images[held], 0)


def test_a_network_in_another_layout_gives_the_same() -> None:
    net = build("wrn-10-1", 10, seed=3)
    requests = [Request(name, torch.rand(9, 3, 16, 16)) for name in "ab"]
    plain = StreamPool(net, 10, capacity=8, update_every=8)
    net_last = build("wrn-10-1", 10, seed=3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    last = StreamPool(net_last, 10, capacity=8, update_every=8)
    for _ in range(3):
        for one, other in zip(plain(requests), last(requests), strict=True):
            assert one.logits is not None
            assert other.logits is not None
            close(one.logits, other.logits, 1e-4)


def test_one_streams_nonsense_does_not_reach_another() -> None:
    """Finite images, but numbers that overflow: γ of one stream becomes NaN."""
    alone, beside = (StreamPool(small_net(), CLASSES, **SMALL) for _ in range(2))
    for turn in range(6):
        request = Request("healthy", images(6, turn))
        (expected,) = alone([request])
        if turn == 2:
            _poison(beside, "sick")
        own, _ = beside([request, Request("sick", images(6, 100 + turn))])
        assert own.logits is not None
        assert expected.logits is not None
        close(own.logits, expected.logits, EXACT)
    assert not beside([Request("sick", images(1, 0))])[0].logits.isfinite().all()  # type: ignore[union-attr]


def _poison(pool: StreamPool, name: str) -> None:
    stream = pool._residents.here(name)
    assert stream is not None
    pool._engine.numbers.of(stream.row)[2:4] = torch.nan


def test_a_network_may_work_in_place_on_its_images() -> None:
    class Shifts(nn.Module):
        def __init__(self, in_place: bool) -> None:
            super().__init__()
            self.in_place = in_place
            self.net = small_net().float()

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.net(x.sub_(0.5) if self.in_place else x - 0.5)
            return logits

    pools = [StreamPool(Shifts(way).eval(), CLASSES, **SMALL) for way in (True, False)]
    for seed in range(6):
        x = images(9, seed).float().contiguous(memory_format=torch.channels_last)
        given = x.clone()
        (ours,), (theirs,) = (pool.predict([Request("a", given)]) for pool in pools)
        assert ours.logits is not None
        assert theirs.logits is not None
        assert torch.equal(ours.logits, theirs.logits)
        assert torch.equal(given, x)
        for pool in pools:
            pool.learn()
