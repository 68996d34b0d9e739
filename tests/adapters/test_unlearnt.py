"""What a method with a guard would say unlearnt: statistics of its own, of γ and β that stay."""

import pytest
import torch
from small_methods import EVERY, images, make, small_net, stream, walk

import rotta
from rotta.adapters import note
from rotta.adapters import rotta as method
from rotta.adapters.unlearnt import share_of_many

tracking = pytest.mark.parametrize("name", ["rotta", "note"])


@pytest.fixture
def at_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(method, "FOLLOW_EVERY", 1)
    monkeypatch.setattr(note, "FOLLOW_EVERY", 1)


@tracking
@pytest.mark.usefixtures("at_every_update")
def test_where_nothing_is_learnt_it_is_the_method_itself(name: str) -> None:
    model = make(name, guard=True, lr=0.0)
    walk(model, stream(12))
    x = images(8, seed=99)
    assert torch.allclose(model.infer_unlearnt(x), model.predict(x), atol=1e-6)
    assert not torch.allclose(model.infer_unlearnt(x), make(name).predict(x), atol=1e-2)


@tracking
@pytest.mark.usefixtures("at_every_update")
def test_what_is_learnt_does_not_reach_it(name: str) -> None:
    """Neither by parameters nor by statistics, in whichever layer."""
    still, learning = (make(name, guard=True, lr=lr) for lr in (0.0, 0.03))
    if name == "rotta":
        learning = make(name, guard=True, lr=0.03, nu=0.3)
    # as many as there are places, all of them kept: what is in the bank depends on no prediction
    for x in stream(1, size=EVERY):
        for each in (still, learning):
            each(x)
    x = images(8, seed=99)
    assert torch.allclose(still.infer_unlearnt(x), learning.infer_unlearnt(x), atol=1e-6)
    assert not torch.allclose(still.predict(x), learning.predict(x), atol=1e-2)


@tracking
def test_one_step_in_eight_goes_as_far_as_eight(name: str) -> None:
    """On one image again and again, so that the bank holds the same whatever comes."""
    model = make(name, guard=True, lr=0.0)
    x = images(1).repeat(EVERY, 1, 1, 1)
    for _ in range(8):  # the first of eight updates is the one that it follows
        model(x)
    own, unlearnt = (
        {n: b for n, b in model.get_submodule(part).named_buffers() if "running_mean" in n}
        for part in ("teacher" if name == "rotta" else "net", "unlearnt")
    )
    assert own.keys() == unlearnt.keys()
    first = next(iter(own))
    assert torch.allclose(own[first], unlearnt[first], atol=1e-5)


@tracking
def test_without_a_guard_there_is_none(name: str) -> None:
    assert make(name).unlearnt is None
    assert not any(key.startswith("unlearnt") for key in make(name).state_dict())


def test_without_robust_statistics_there_is_none_either() -> None:
    model = rotta.adapt(small_net(), "rotta", guard=True, robust_norm=False)
    assert isinstance(model, rotta.RoTTA)
    assert model.unlearnt is None
    x = images(4)
    assert torch.equal(model.infer_unlearnt(x), model.predict(x))


def test_shares_add_up() -> None:
    moved = 0.0
    for _ in range(5):
        moved += 0.1 * (1 - moved)
    assert share_of_many(0.1, 5) == pytest.approx(moved)
