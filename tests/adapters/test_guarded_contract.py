"""What every method promises holds with a guard too, however often it acts."""

import copy
import json
from typing import Any

import pytest
import torch
from small_methods import EVERY, fingerprint, images, make, same, stream, tiny_net, walk
from torch import Tensor

from rotta.adapters import METHODS, Adapter
from rotta.adapters.learnt import Learnt
from rotta.guard import guard as guard_module

every_method = pytest.mark.parametrize("name", METHODS)
LEARNING = [name for name in METHODS if hasattr(make(name, tiny_net()), "optimiser")]
every_learner = pytest.mark.parametrize("name", LEARNING)
FEW, MANY = 12, 24


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and snapshots at every few batches, and an alarm at the first sign of a change."""
    monkeypatch.setattr(guard_module, "LOOK_EVERY", 3)
    monkeypatch.setattr(guard_module, "SNAPSHOT_EVERY", 5)
    monkeypatch.setattr(guard_module, "QUIET_PER_ALARM", 4)
    monkeypatch.setattr(guard_module, "TOO_FAR", 1e-2)


def guarded(name: str) -> Adapter:
    """So fast a learner that it goes too far again and again."""
    options: dict[str, Any] = {"lr": 0.05} if name in LEARNING else {}
    if name.startswith("rotta"):
        options["nu"] = 0.5
    if name == "rotta-lasting":
        options["leash"] = 0.0
    return make(name, tiny_net(), guard=True, **options)


def batches(count: int = MANY) -> list[Tensor]:
    return stream(count, size=EVERY // 2)


@every_learner
def test_it_acts(name: str) -> None:
    """Before half of the batches have come, and after: which the tests here are about."""
    model = guarded(name)
    walk(model, batches()[:FEW])
    before = len(model.events)
    assert before > 0
    walk(model, batches()[FEW:])
    assert len(model.events) > before
    assert {event["action"] for event in model.events} & {"roll back", "reset"}


@every_method
def test_reset_is_exact(name: str) -> None:
    model = guarded(name)
    start = fingerprint(guarded(name).state_dict())
    first = walk(model, batches())
    model.reset()
    assert fingerprint(model.state_dict()) == start
    assert model.events == []
    assert same(first, walk(model, batches()))


@every_method
def test_a_state_continues_in_another(name: str) -> None:
    model, other = guarded(name), guarded(name)
    walk(model, batches()[:FEW])
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    for x in batches()[FEW:]:
        assert torch.equal(model(x), other(x))
    assert model.events == other.events
    assert fingerprint(model.state_dict()) == fingerprint(other.state_dict())


@every_learner
def test_what_was_seen_and_not_judged_yet_is_part_of_the_state(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is saved, copied or loaded between a look and the batch after it."""
    monkeypatch.setattr(guard_module, "LOOK_EVERY", 1)
    model = guarded(name)
    for x in batches():
        twin, other = copy.deepcopy(model), guarded(name)
        other.load_state_dict(copy.deepcopy(model.state_dict()))
        expected = model(x)
        assert torch.equal(twin(x), expected)
        assert torch.equal(other(x), expected)
        assert twin.events == other.events == model.events
    assert model.events


@every_learner
def test_a_batch_that_was_predicted_by_what_is_put_back_is_not_learnt_from(name: str) -> None:
    model = guarded(name)
    put_back = 0
    for x in batches():
        before, seen = len(model.events), model.get_extra_state().get("samples_seen")
        model(x)
        if {e["action"] for e in model.events[before:]} & {"roll back", "reset"}:
            put_back += 1
            assert model.get_extra_state()["optimiser"]["state"] == {}
            assert model.get_extra_state().get("samples_seen") == seen
            assert model.bank is None or len(model.bank) == 0
    assert put_back > 1


@every_method
def test_predicting_alone_tells_what_comes_and_changes_nothing(name: str) -> None:
    model = guarded(name)
    for x in batches():
        before = fingerprint(model.state_dict())
        alone = model.predict(x)
        assert fingerprint(model.state_dict()) == before
        assert torch.equal(alone, model(x))


@every_method
def test_a_bad_batch_is_refused_and_changes_nothing(name: str) -> None:
    model = guarded(name)
    walk(model, batches(FEW))
    before = fingerprint(model.state_dict())
    with pytest.raises(ValueError, match="NaN"):
        model(torch.full_like(images(4), torch.nan))
    assert fingerprint(model.state_dict()) == before


@every_method
def test_a_guard_that_sees_nothing_wrong_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "TOO_FAR", 1e9)
    model, usual = make(name, guard=True), make(name)
    assert same(walk(model, stream()), walk(usual, stream()))
    assert model.events == []


@every_learner
def test_looking_leaves_no_trace(name: str) -> None:
    """Parameters are put aside for it, and return bit by bit, after an error too."""
    model = guarded(name)
    walk(model, batches(2))
    before = fingerprint(model.state_dict())
    unlearnt = model.infer_unlearnt(images(5))
    assert fingerprint(model.state_dict()) == before
    assert unlearnt.shape == (5, 10)
    with pytest.raises(RuntimeError), Learnt(model).left_out():
        raise RuntimeError
    assert fingerprint(model.state_dict()) == before


@pytest.mark.parametrize("name", ["pl", "tent", "cotta"])
def test_unlearnt_is_what_was_said_at_the_start(name: str) -> None:
    """The other learners track statistics, which stay what they are."""
    model, x = guarded(name), images(8)
    draws = getattr(model, "generator", torch.Generator())  # CoTTA's views are drawn each time
    at_start = draws.get_state()
    expected = model.infer_unlearnt(x)
    walk(model, batches(2))
    draws.set_state(at_start)
    assert torch.equal(model.infer_unlearnt(x), expected)


@every_learner
def test_what_has_not_learnt_has_lost_nothing(name: str) -> None:
    """Whatever else the method does to predict, it does for what a guard compares with too."""
    model, x = guarded(name), images(8)
    with torch.no_grad():
        assert torch.allclose(model.infer_unlearnt(x), model.infer(x), atol=1e-5)


@every_method
def test_events_can_be_written_down(name: str) -> None:
    model = guarded(name)
    walk(model, batches())
    assert json.loads(json.dumps(model.events, allow_nan=False)) == model.events


def test_the_log_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_module, "MOST_EVENTS", 3)
    model = guarded("tent")
    walk(model, batches())
    assert len(model.events) == 3


def test_the_state_of_an_unguarded_method_is_refused() -> None:
    with pytest.raises(ValueError, match="same method with the same options"):
        guarded("tent").load_state_dict(make("tent", tiny_net(), lr=0.05).state_dict())


@pytest.mark.parametrize("name", ["note", "rotta", "rotta-lasting"])
def test_putting_back_empties_the_bank_and_renews_the_optimiser(name: str) -> None:
    model = make(name, tiny_net(), guard=True)
    start = fingerprint(model.state_dict())
    walk(model, batches(FEW))
    held = {n: t.data_ptr() for n, t in model.named_parameters()}
    assert model.bank is not None
    assert len(model.bank) > 0
    Learnt(model).put_back(None)
    assert len(model.bank) == 0
    assert {n: t.data_ptr() for n, t in model.named_parameters()} == held
    assert model.get_extra_state()["optimiser"]["state"] == {}
    assert model.get_extra_state()["samples_seen"] == FEW * EVERY // 2
    assert fingerprint(model.state_dict()) != start
    model.reset()
    assert fingerprint(model.state_dict()) == start


@every_method
def test_an_answer_that_is_no_number_is_noticed_whoever_made_it_so(name: str) -> None:
    """What corrects for the mix of classes remembers it, and could remember anything."""
    model = make(name, tiny_net(), guard=True, class_mix=True)
    walk(model, batches(3))
    assert model.class_mix is not None
    model.class_mix.usual.fill_(torch.nan)
    assert model(images(8)).isnan().all()
    model(images(8, seed=1))
    assert [event["cause"] for event in model.events] == ["not finite"]
    assert model(images(8, seed=2)).isfinite().all()


@every_method
def test_the_same_is_noticed_where_a_batch_shows_nothing(name: str) -> None:
    """Nothing is learnt from it, and yet it was answered."""
    model = make(name, tiny_net(), guard=True, class_mix=True)
    noise = images(8, side=32)
    model(noise)
    assert model.class_mix is not None
    model.class_mix.usual.fill_(torch.nan)
    assert model(noise).isnan().all()
    model(noise)
    assert "not finite" in [event["cause"] for event in model.events]
    assert model(noise).isfinite().all()
