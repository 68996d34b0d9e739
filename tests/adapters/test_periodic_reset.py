"""``reset_every``: after so many samples every method is where it began, and goes on from there."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from small_methods import EVERY, fingerprint, images, make, same, stream, tiny_net, usual, walk
from torch import Tensor

import rotta
from rotta.adapters import METHODS, Adapter
from rotta.adapters.choice import parse_methods

every_method = pytest.mark.parametrize("name", METHODS)
PERIOD = 3 * EVERY


def periodic(name: str, **options: Any) -> Adapter:
    return make(name, tiny_net(), reset_every=PERIOD, **options)


def period() -> list[Tensor]:
    """As many samples as there are in one."""
    return stream(2 * 3, size=EVERY // 2)


def learnt(model: Adapter) -> dict[str, Tensor]:
    """Parameters, statistics and what the bank holds; an empty bank may have room for images."""
    state = model.state_dict()
    return {
        name: value
        for name, value in state.items()
        if isinstance(value, Tensor) and name != "bank.images"
    }


@every_method
def test_after_a_period_it_is_at_its_start(name: str) -> None:
    model = periodic(name)
    start = copy.deepcopy(learnt(model))
    walk(model, period())
    assert fingerprint(learnt(model)) == fingerprint(start)
    assert model.get_extra_state().get("optimiser", {"state": {}})["state"] == {}
    assert model.bank is None or len(model.bank) == 0


@every_method
def test_then_it_predicts_as_a_fresh_one_with_the_same_draws(name: str) -> None:
    model, fresh = periodic(name), make(name, tiny_net())
    walk(model, period())
    if hasattr(fresh, "generator"):
        assert isinstance(model.generator, torch.Generator)
        assert isinstance(fresh.generator, torch.Generator)
        fresh.generator.set_state(model.generator.get_state())
    rest = period()[:-1]
    assert same(walk(model, rest), walk(fresh, rest))


@pytest.mark.parametrize("name", ["note", "rotta", "rotta-lasting"])
def test_draws_and_counters_go_on(name: str) -> None:
    model, endless = periodic(name), make(name, tiny_net())
    for x in period():
        model(x)
        endless(x)
    mine, theirs = model.get_extra_state(), endless.get_extra_state()
    assert mine["samples_seen"] == theirs["samples_seen"] == PERIOD
    assert mine["generator"].equal(theirs["generator"])


@every_method
def test_before_the_period_is_over_it_makes_no_difference(name: str) -> None:
    batches = stream()
    model = make(name, reset_every=1 + sum(map(len, batches)))
    assert same(walk(model, batches), usual(name))


@every_method
def test_a_state_in_mid_period_continues(name: str) -> None:
    model, other = periodic(name), periodic(name)
    walk(model, stream(5))
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    for x in stream(12):  # over the end of a period
        assert torch.equal(model(x), other(x))
    assert fingerprint(model.state_dict()) == fingerprint(other.state_dict())


@every_method
def test_reset_is_exact(name: str) -> None:
    model = periodic(name)
    start = fingerprint(periodic(name).state_dict())
    first = walk(model, stream(9))
    model.reset()
    assert fingerprint(model.state_dict()) == start
    assert same(first, walk(model, stream(9)))


def resets(model: Adapter, batches: list[Tensor]) -> list[int]:
    """After how many samples the optimiser was new."""
    seen, found = 0, []
    for x in batches:
        model(x)
        seen += len(x)
        if not model.get_extra_state()["optimiser"]["state"]:
            found.append(seen)
    return found


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, [48, 96, 144]), (7, [49, 98, 147]), (20, [60, 100, 160]), (100, [100, 200])],
)
def test_what_is_over_counts_for_the_next_period(size: int, expected: list[int]) -> None:
    """So that it comes as often whatever the batch size; a batch is never cut."""
    batches = stream(200 // size, size)
    found = resets(periodic("tent"), batches)
    assert found[: len(expected)] == expected


def test_what_is_not_learnt_from_does_not_count() -> None:
    model = periodic("tent", bad_input="skip")
    walk(model, period()[:-1])
    model.predict(images(PERIOD))
    model(torch.full_like(images(PERIOD), torch.nan))
    assert model.get_extra_state()["optimiser"]["state"]
    model(period()[-1])
    assert not model.get_extra_state()["optimiser"]["state"]


def test_the_rate_that_a_guard_has_lowered_stays_low() -> None:
    model = periodic("tent", guard=True, lr=1e-3)
    walk(model, period()[:-1])
    assert isinstance(model.optimiser, torch.optim.Optimizer)
    model.optimiser.param_groups[0]["lr"] = 1e-5
    model(period()[-1])
    assert not model.get_extra_state()["optimiser"]["state"]
    assert model.optimiser.param_groups[0]["lr"] == 1e-5
    model.reset()
    assert model.optimiser.param_groups[0]["lr"] == 1e-3


def test_what_a_guard_saw_before_a_reset_is_not_held_against_what_comes_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rotta.guard import guard

    monkeypatch.setattr(guard, "LOOK_EVERY", len(period()))
    monkeypatch.setattr(guard, "TOO_FAR", 0.0)
    model = periodic("tent", guard=True, lr=1e-3)
    walk(model, period())
    assert [event["batch"] for event in model.events] == [len(period())]
    model(period()[0])
    assert len(model.events) == 1
    assert model.get_extra_state()["optimiser"]["state"]


@every_method
@pytest.mark.parametrize("wrong", [0, -1, 2.5, "often"])
def test_what_is_no_number_of_samples_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match="reset_every must be 1 or more, a whole number"):
        make(name, tiny_net(), reset_every=wrong)


def test_the_state_of_another_period_is_refused() -> None:
    state = periodic("rotta").state_dict()
    with pytest.raises(ValueError, match="it was saved with reset_every=48"):
        make("rotta", tiny_net(), reset_every=7).load_state_dict(state)
    with pytest.raises(ValueError, match="the same method with the same options"):
        make("rotta", tiny_net()).load_state_dict(state)


def test_without_it_the_state_has_nothing_of_it() -> None:
    assert "_learnt_from" not in make("rotta", tiny_net()).get_extra_state()


def test_it_can_be_typed_and_saved(tmp_path: Path) -> None:
    (choice,) = parse_methods("rotta:reset_every=150000")
    assert choice.label == "rotta:reset_every=150000"
    net = tiny_net()
    model = choice.build(net, 10)
    walk(model, period())
    rotta.save(model, tmp_path / "model.safetensors")
    loaded = rotta.load(tmp_path / "model.safetensors", net)
    assert loaded.reset_every == 150000
    assert loaded.get_extra_state()["_learnt_from"] == PERIOD
    with pytest.raises(ValueError, match="reset_every takes a whole number"):
        parse_methods("rotta:reset_every=1.5")
