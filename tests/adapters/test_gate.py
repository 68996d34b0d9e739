"""Bad input: what is skipped is predicted where possible, never learnt from, and counted."""

import warnings
from typing import Any

import pytest
import torch
from small_methods import EVERY, fingerprint, images, make, same, stream, walk
from torch import Tensor

from rotta.adapters import METHODS
from rotta.adapters.choice import parse_methods

every_method = pytest.mark.parametrize("name", METHODS)
AUGMENTING = [name for name, kind in METHODS.items() if kind.AUGMENTS]

NOTHING = dict.fromkeys(("non-finite", "range", "shape", "dtype", "device", "empty"), 0)

BAD_BATCHES: dict[str, tuple[Any, str, int]] = {
    "three axes": (torch.zeros(3, 16, 16), "shape", 0),
    "other size": (torch.zeros(2, 3, 20, 20), "shape", 2),
    "empty": (torch.zeros(0, 3, 16, 16), "empty", 0),
    "no pixels": (torch.zeros(2, 3, 0, 16), "empty", 2),
    "bytes": (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), "dtype", 2),
    "double": (torch.zeros(2, 3, 16, 16, dtype=torch.float64), "dtype", 2),
    "elsewhere": (torch.zeros(2, 3, 16, 16, device="meta"), "device", 2),
}
"""What comes, why it is bad, and how many rows of logits there are for it."""


def with_bad_rows(x: Tensor, value: float, *rows: int) -> Tensor:
    x = x.clone()
    for row in rows:
        x[row, 1, 2, 3] = value
    return x


@every_method
def test_good_input_makes_no_difference(name: str) -> None:
    model = make(name, bad_input="skip")
    assert same(walk(model, stream()), walk(make(name), stream()))
    assert model.skipped == NOTHING


@every_method
def test_a_batch_that_cannot_be_predicted_changes_only_its_count(name: str) -> None:
    model, usual = make(name, bad_input="skip"), make(name)
    walk(model, stream()[:3])
    walk(usual, stream()[:3])
    expected = dict(NOTHING)
    for batch, reason, rows in BAD_BATCHES.values():
        logits = model(batch)
        assert logits.shape == (rows, 10)
        assert logits.isnan().all()
        assert logits.dtype == torch.float32
        expected[reason] += 1
        assert model.skipped == expected
    assert same(walk(model, stream()[3:]), walk(usual, stream()[3:]))


@every_method
@pytest.mark.parametrize("x", [None, "image.png", [[0.5]], images(2).numpy()], ids=type)
def test_what_is_no_tensor_is_an_error_under_either_policy(name: str, x: Any) -> None:
    """The program is wrong then, not the camera."""
    for policy in ("raise", "skip"):
        model = make(name, bad_input=policy)
        before = fingerprint(model.state_dict())
        for call in (model, model.predict):
            with pytest.raises(ValueError, match=r"must be a tensor.*, not \w+: convert them"):
                call(x)
        assert fingerprint(model.state_dict()) == before


@every_method
def test_nested_tensors_are_no_batch(name: str) -> None:
    nested = torch.nested.nested_tensor(list(images(2)))
    model = make(name)
    with pytest.raises(ValueError, match="stack them"):
        model(nested)
    model = make(name, bad_input="skip")
    assert model(nested).shape == (0, 10)
    assert model.skipped == NOTHING | {"shape": 1}


class Picture(torch.Tensor):
    """A tensor by another name, as libraries for images have them."""


@every_method
def test_tensors_by_other_names_are_kept_as_tensors(name: str) -> None:
    model = make(name)
    logits = [model(x.as_subclass(Picture)) for x in stream()]
    assert same(logits, walk(make(name), stream()))
    assert {type(each) for each in logits} == {torch.Tensor}
    assert all(type(v) is torch.Tensor for v in model.state_dict().values() if torch.is_tensor(v))


@every_method
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_rows_that_are_not_finite_are_as_if_they_had_not_come(name: str, value: float) -> None:
    """Neither predictions of the others, nor statistics, bank and gradients know of them."""
    model, usual = make(name, bad_input="skip"), make(name)
    left = [0, 2, 3, 5, 6]
    for x in stream():
        logits, expected = model(with_bad_rows(x, value, 1, 4)), usual(x[left])
        assert logits[[1, 4]].isnan().all()
        assert torch.equal(logits[left], expected)
    assert model.skipped == NOTHING | {"non-finite": 14}
    mine, theirs = model.state_dict(), usual.state_dict()
    mine["_extra_state"].pop("skipped")
    theirs["_extra_state"].pop("skipped")
    assert fingerprint(mine) == fingerprint(theirs)


@every_method
def test_a_batch_of_nothing_else_is_left_out(name: str) -> None:
    model, usual = make(name, bad_input="skip"), make(name)
    for x in stream():
        assert model(torch.full_like(x, torch.nan)).isnan().all()
        assert torch.equal(model(x), usual(x))
    assert model.skipped["non-finite"] == 49


@pytest.mark.parametrize("name", AUGMENTING)
def test_rows_out_of_range_are_predicted_but_not_learnt_from(name: str) -> None:
    model, usual = make(name, bad_input="skip"), make(name)
    left = [0, 2, 3, 5, 6]
    for x in stream():
        odd = with_bad_rows(x, 200.0, 1, 4)
        alone = model.predict(odd[[1, 4]])
        logits, expected = model(odd), usual(x[left])
        assert torch.equal(logits[left], expected)
        assert torch.equal(logits[[1, 4]], alone)
        assert alone.isfinite().all()
    assert model.skipped == NOTHING | {"range": 14}


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(AUGMENTING)))
def test_where_nothing_is_augmented_any_range_will_do(name: str) -> None:
    model, usual = make(name, bad_input="skip"), make(name)
    batches = [3 * x - 1 for x in stream()]
    assert same(walk(model, batches), walk(usual, batches))
    assert model.skipped == NOTHING


@every_method
def test_predicting_alone_counts_nothing(name: str) -> None:
    model = make(name, bad_input="skip")
    before = fingerprint(model.state_dict())
    x = with_bad_rows(images(4), torch.nan, 2)
    alone = model.predict(x)
    model.predict(images(4)[0])
    assert fingerprint(model.state_dict()) == before
    assert torch.equal(alone[[0, 1, 3]], model(x)[[0, 1, 3]])


def test_counts_are_part_of_the_state() -> None:
    model, other = make("rotta", bad_input="skip"), make("rotta", bad_input="skip")
    walk(model, [with_bad_rows(x, torch.nan, 0) for x in stream(EVERY)])
    other.load_state_dict(model.state_dict())
    assert other.skipped == model.skipped == NOTHING | {"non-finite": EVERY}
    other(images(1)[0])
    assert model.skipped["shape"] == 0
    other.reset()
    assert other.skipped == NOTHING


def test_a_state_may_continue_under_the_other_policy() -> None:
    model, strict = make("tent", bad_input="skip"), make("tent")
    model(with_bad_rows(images(7), torch.nan, 0))
    strict.load_state_dict(model.state_dict())
    assert strict.skipped["non-finite"] == 1
    with pytest.raises(ValueError, match="NaN"):
        strict(with_bad_rows(images(7), torch.nan, 0))


@every_method
def test_an_unknown_policy_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="bad_input must be one of raise, skip, not 'ignore'"):
        make(name, bad_input="ignore")


def test_the_policy_can_be_typed() -> None:
    (choice,) = parse_methods("tent:bad_input=skip:guard=true")
    assert choice.options == {"bad_input": "skip", "guard": True}
    others = {"lr": 1e-3, "class_mix": False, "reset_every": None}
    assert choice.settings == {**choice.options, **others}
    with pytest.raises(ValueError, match="guard takes true or false"):
        parse_methods("tent:guard=1")


@every_method
def test_whole_batches_that_are_skipped_are_told_once_for_each_reason(name: str) -> None:
    """Somebody who chose to skip may have forgotten to scale, and would never learn anything."""
    model = make(name, bad_input="skip")
    huge = 255e9 * images(4)
    for bad, reason in ((huge, "images lie in"), (images(4).half(), "images must be")):
        with pytest.warns(UserWarning, match=f"skipped: {reason}") as told:
            walk(model, [bad, bad])
        assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(with_bad_rows(images(4), torch.nan, 0))  # of which something is learnt
        model(huge)
