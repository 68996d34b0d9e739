"""What a method with a guard would say unlearnt: statistics of its own, of γ and β that stay."""

import pytest
import torch
from small_methods import EVERY, images, make, small_net, stream, walk
from torch import Tensor, nn

import rotta
from rotta.adapters import unlearnt
from rotta.adapters.unlearnt import (
    FOLLOW_EVERY,
    FOLLOWED_AT_ONCE,
    followed,
    share_of_many,
    steps_to_follow,
)
from rotta.guard import Guard
from rotta.guard.guard import LOOK_EVERY
from rotta.nn.frozen_conv import freeze_convolutions

tracking = pytest.mark.parametrize("name", ["rotta", "note"])


@pytest.fixture
def at_every_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlearnt, "FOLLOW_EVERY", 1)
    monkeypatch.setattr(unlearnt, "FOLLOWED_AT_ONCE", 1_000)  # the whole bank


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
def test_it_keeps_step_with_the_method(name: str) -> None:
    """On one image again and again, so that whatever is shown of the bank is the same."""
    model = make(name, guard=True, lr=0.0)
    x = images(1).repeat(EVERY, 1, 1, 1)
    for updates in range(1, 4 * FOLLOW_EVERY + 1):
        model(x)
        own, kept = (
            next(b for n, b in model.get_submodule(part).named_buffers() if "running_mean" in n)
            for part in ("teacher" if name == "rotta" else "net", "unlearnt")
        )
        if updates % FOLLOW_EVERY == 0:
            assert torch.allclose(own, kept, atol=1e-5)


@tracking
def test_in_doubt_it_keeps_step_at_every_update(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlearnt, "FOLLOWED_AT_ONCE", 1_000)
    monkeypatch.setattr(Guard, "in_doubt", True)
    model = make(name, guard=True, lr=0.0)
    x = images(8, seed=99)
    for batch in stream(FOLLOW_EVERY // 2, EVERY):
        model(batch)
        assert torch.allclose(model.infer_unlearnt(x), model.predict(x), atol=1e-6)


def test_a_look_finds_statistics_that_have_caught_up() -> None:
    """Where every batch is an update."""
    assert LOOK_EVERY % FOLLOW_EVERY == 0
    assert steps_to_follow(LOOK_EVERY - 1, doubt=False) == FOLLOW_EVERY


@pytest.mark.parametrize("steps", [1, FOLLOW_EVERY])
def test_every_image_of_a_bank_has_its_turn(steps: int) -> None:
    for size in (1, 7, 8, 17, 64):
        bank = torch.arange(size)
        turns = [followed(bank, steps * turn, steps) for turn in range(2 * size)]
        assert set(torch.cat(turns).tolist()) == set(bank.tolist())
        assert {len(shown) for shown in turns} == {size // max(1, size // FOLLOWED_AT_ONCE)}
        assert all(len(set(shown.tolist())) == len(shown) for shown in turns)


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


class Unlearnable(nn.Module):
    """A network without parameters."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randn(3, 10))
        self.norm = nn.BatchNorm1d(10, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.norm(x.mean(dim=(2, 3)) @ self.weight)
        return logits


@pytest.mark.parametrize("net", [small_net(), Unlearnable()], ids=["usual", "no parameters"])
def test_on_a_cpu_it_computes_as_the_method_does(net: nn.Module) -> None:
    model, x = make("rotta", net.eval(), guard=True), images(8)
    assert torch.equal(model.infer_unlearnt(x), model.predict(x))
    walk(model, stream(FOLLOW_EVERY + 1, EVERY))
    assert model.events == []


def test_a_model_that_is_moved_computes_it_in_its_own_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that was built on a GPU has it in half of that."""
    from rotta.adapters import rotta as rotta_module

    monkeypatch.setattr(rotta_module, "reference_precision", lambda net, precision: "bfloat16")
    model, x = make("rotta", guard=True), images(8).double()
    assert isinstance(model, rotta.RoTTA)
    assert model.unlearnt is not None
    freeze_convolutions(model.unlearnt, torch.bfloat16, {}, gradients=False)
    model.double()
    assert torch.equal(model.infer_unlearnt(x), model.predict(x))
    walk(model, [images(EVERY, seed).double() for seed in range(2 * FOLLOW_EVERY)])
    assert model.events == []
