"""Methods as they are typed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_methods import SEEDED, small_net

from rotta.adapters import METHODS
from rotta.adapters.choice import MethodChoice, parse_methods


def test_all_is_every_method_in_its_order() -> None:
    assert [choice.name for choice in parse_methods("all")] == list(METHODS)
    assert all(choice.options == {} for choice in parse_methods(" all "))


def test_names_with_commas_between() -> None:
    choices = parse_methods(" source, rotta ,")
    assert choices == [MethodChoice("source", {}), MethodChoice("rotta", {})]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rotta:alpha=0.1:nu=1e-2", {"alpha": 0.1, "nu": 0.01}),
        ("rotta:capacity=32", {"capacity": 32}),
        ("rotta:lr=1", {"lr": 1.0}),
        ("rotta:robust_norm=false", {"robust_norm": False}),
        ("rotta:robust_norm=True", {"robust_norm": True}),
        ("cotta:confidence=0.5", {"confidence": 0.5}),
        ("cotta:confidence=1", {"confidence": 1.0}),
    ],
)
def test_options_are_read_as_what_they_are(text: str, options: dict[str, Any]) -> None:
    (choice,) = parse_methods(text)
    assert choice.options == options
    assert {key: type(value) for key, value in choice.options.items()} == {
        key: type(value) for key, value in options.items()
    }


def test_one_method_may_come_with_several_settings() -> None:
    labels = [choice.label for choice in parse_methods("note,note:lr=1e-3,note:lr=0.01")]
    assert labels == ["note", "note:lr=0.001", "note:lr=0.01"]


@given(
    lr=st.floats(1e-12, 10, allow_subnormal=False),
    capacity=st.integers(1, 10**6),
    robust_norm=st.booleans(),
)
def test_a_label_can_be_typed_again(lr: float, capacity: int, robust_norm: bool) -> None:
    choice = MethodChoice("rotta", {"lr": lr, "capacity": capacity, "robust_norm": robust_norm})
    assert parse_methods(choice.label) == [choice]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no method is named: give `all`"),
        (" , ", "no method is named: give `all`"),
        ("rota", "unknown method 'rota': did you mean 'rotta'"),
        ("source,tentt", "unknown method 'tentt': did you mean 'tent'"),
        ("all,rotta", "unknown method 'all'"),
        ("rotta:alfa=0.1", "unknown option of rotta 'alfa': did you mean 'alpha'"),
        ("source:lr=1", "unknown option of source 'lr'"),
        ("rotta:alpha", "write options as rotta:key=value"),
        ("rotta:", "write options as rotta:key=value"),
        ("rotta:alpha=", "rotta:alpha takes a number, not ''"),
        ("rotta:alpha=much", "rotta:alpha takes a number, not 'much'"),
        ("rotta:capacity=16.5", "rotta:capacity takes a whole number, not '16.5'"),
        ("rotta:capacity=true", "rotta:capacity takes a whole number, not 'true'"),
        ("rotta:alpha=True", "rotta:alpha takes a number, not 'True'"),
        ("rotta:robust_norm=1", "rotta:robust_norm takes true or false, not '1'"),
        ("rotta:robust_norm=no", "rotta:robust_norm takes true or false, not 'no'"),
        ("cotta:confidence=high", "cotta:confidence takes a number, not 'high'"),
        ("tent,bn,tent", "tent is named twice"),
        ("note:lr=1e-3,note:lr=0.001", "note:lr=0.001 is named twice"),
        ("rotta:lr=1:lr=2", "lr is given twice"),
    ],
)
def test_what_cannot_be_read_is_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_methods(text)


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_goes_to_those_that_draw(name: str) -> None:
    (choice,) = parse_methods(name)
    model = choice.build(small_net(), 10, seed=5)
    assert type(model) is METHODS[name]
    if name in SEEDED:
        assert model.get_extra_state()["generator"].equal(
            MethodChoice(name, {"seed": 5}).build(small_net(), 10).get_extra_state()["generator"]
        )
        assert not model.get_extra_state()["generator"].equal(
            choice.build(small_net(), 10, seed=6).get_extra_state()["generator"]
        )


def test_a_seed_that_is_typed_counts_more() -> None:
    (choice,) = parse_methods("rotta:seed=3:capacity=16")
    model = choice.build(small_net(), 10, seed=5)
    again = choice.build(small_net(), 10, seed=6)
    assert model.get_extra_state()["generator"].equal(again.get_extra_state()["generator"])
    assert model.bank is not None
    assert model.bank.capacity == 16


def test_what_is_chosen_by_itself_can_be_given() -> None:
    (choice,) = parse_methods("cotta:passes_at_once=4:confidence=0.5")
    assert choice.options == {"passes_at_once": 4, "confidence": 0.5}
    assert choice.settings["passes"] == 32
    assert "seed" not in choice.settings


@pytest.mark.parametrize("name", METHODS)
def test_which_methods_keep_nothing(name: str) -> None:
    (choice,) = parse_methods(name)
    assert choice.keeps_nothing is (name in ("source", "bn", "lame"))


@pytest.mark.parametrize(
    ("option", "keeps"),
    [
        ("guard=true", True),
        ("class_mix=true", True),
        ("reset_every=100", True),
        ("bad_input=skip", True),  # it counts what it skips
        ("bad_input=raise", False),
        ("neighbours=3", False),
    ],
)
def test_with_which_options_something_is_kept(option: str, keeps: bool) -> None:
    (choice,) = parse_methods(f"lame:{option}")
    assert choice.keeps_nothing is not keeps


def test_a_method_says_only_for_itself_that_it_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    derived = type("Derived", (METHODS["source"],), {})
    monkeypatch.setitem(METHODS, "source", derived)
    assert not MethodChoice("source", {}).keeps_nothing
