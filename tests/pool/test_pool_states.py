"""A stream's state as bytes: complete, checked, and refused where it does not belong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from separate_models import SMALL, images, small_net

from rotta import state_file
from rotta.pool import Request, StreamPool
from rotta.state_file import state_from_bytes, state_to_bytes

CLASSES = 4


def make(seed: int = 0, **options: Any) -> StreamPool:
    return StreamPool(small_net(seed), CLASSES, **SMALL | options)


def content(pool: StreamPool, name: str) -> str:
    """All of a state; the order of what describes it in its bytes is nobody's business."""
    return repr(state_from_bytes(pool.state(name), "stream", name))


def walked(pool: StreamPool, name: str = "a", batches: int = 5) -> StreamPool:
    for seed in range(batches):
        pool([Request(name, images(3, seed))])
    return pool


@pytest.mark.parametrize("options", [{}, {"guard": True}], ids=["plain", "guarded"])
def test_a_stream_goes_on_elsewhere_as_if_nothing_had_happened(options: dict[str, Any]) -> None:
    pool = walked(make(**options), batches=17)
    other = make(**options)
    other.restore("b", pool.state("a"))
    for seed in range(50, 55):
        x = images(5, seed)
        (one,), (two,) = pool([Request("a", x)]), other([Request("b", x)])
        assert torch.equal(one.logits, two.logits)  # type: ignore[arg-type]
    for field in ("samples", "updates", "bank_ages", "lately", "events"):
        assert getattr(pool.info("a"), field) == getattr(other.info("b"), field)


def changed(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The state of somebody who knows how to sign one."""
    content = state_from_bytes(data, "stream", "it")
    change(content)
    return state_to_bytes("stream", content)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: changed(data, lambda c: c.pop("numbers")),
        lambda data: changed(data, lambda c: c.update(numbers=c["numbers"][:, :3])),
        lambda data: changed(data, lambda c: c.update(numbers=c["numbers"].float())),
        lambda data: changed(data, lambda c: c["bank"].update(label=c["bank"]["label"][:1])),
        lambda data: changed(data, lambda c: c["bank"].update(label=c["bank"]["label"] + 100)),
        lambda data: changed(data, lambda c: c["bank"].update(images=torch.zeros(1))),
        lambda data: changed(data, lambda c: c["record"].update(surprise=1)),
        lambda data: changed(data, lambda c: c["record"].update(counts=[1.0])),
        lambda data: changed(data, lambda c: c.update(generator=torch.zeros(3))),
        lambda data: changed(data, lambda c: c.update(guard={})),
        lambda data: state_to_bytes("method", {}),
    ],
)
def test_damaged_data_is_refused_and_nothing_changes(spoil: Callable[[bytes], bytes]) -> None:
    pool = walked(make())
    before, spoilt = content(pool, "a"), spoil(pool.state("a"))
    for name in ("a", "new"):
        with pytest.raises(ValueError, match="the state of stream"):
            pool.restore(name, spoilt)
    assert pool.names() == ["a"]
    assert content(pool, "a") == before


def test_a_guarded_state_from_before_goes_on() -> None:
    """Guards remembered less then."""
    pool, other = walked(make(guard=True)), make(guard=True)
    later = ("_asked", "_blind_for")
    data = changed(pool.state("a"), lambda c: [c["guard"].pop(name) for name in later])
    other.restore("a", data)
    assert content(other, "a") == content(pool, "a")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda guard: guard.pop("_batches"),
        lambda guard: guard.update(surprise=1),
        lambda guard: guard.update(_asked=torch.zeros(3)),
    ],
)
def test_a_damaged_guard_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    pool = walked(make(guard=True))
    data = changed(pool.state("a"), lambda c: spoil(c["guard"]))
    with pytest.raises(ValueError, match="the state of stream"):
        make(guard=True).restore("a", data)


@pytest.mark.parametrize(
    ("make_other", "told"),
    [
        (lambda: make(seed=1), "network="),
        (lambda: make(lr=0.5), "lr=0.01 instead of 0.5"),
        (lambda: make(guard=True), "guard=False instead of True"),
        (lambda: StreamPool(small_net(num_classes=5), 5, **SMALL), "num_classes=4 instead of 5"),
    ],
)
def test_the_state_of_another_pool_is_refused(
    make_other: Callable[[], StreamPool], told: str
) -> None:
    data = walked(make()).state("a")
    other = make_other()
    with pytest.raises(ValueError, match=told):
        other.restore("a", data)
    assert other.names() == []


def test_newer_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(state_file, "FORMAT", state_file.FORMAT + 1)
        data = walked(make()).state("a")
    with pytest.raises(ValueError, match="update rotta"):
        make().restore("a", data)


def test_a_pool_with_another_seed_can_go_on() -> None:
    """A stream has its random state with it."""
    data = walked(make()).state("a")
    own, other = make(), StreamPool(small_net(), CLASSES, seed=7, **SMALL)
    for pool in (own, other):
        pool.restore("a", data)
        walked(pool)
    one, two = (state_from_bytes(pool.state("a"), "stream", "a") for pool in (own, other))
    assert torch.equal(one["numbers"], two["numbers"])
    assert torch.equal(one["generator"], two["generator"])
