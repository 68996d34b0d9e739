"""Turns and budgets, with times that are made up."""

from functools import partial

import pytest

from rotta.bench.timing import Action, Budget, take_turns


class MadeUpTimes:
    """A timer that does what it is told to time, and says a made-up time."""

    def __init__(self, **milliseconds: float) -> None:
        self.milliseconds = milliseconds
        self.order: list[str] = []

    def rounds(self) -> dict[str, Action]:
        return {name: partial(self.order.append, name) for name in self.milliseconds}

    def __call__(self, action: Action) -> float:
        action()
        return self.milliseconds[self.order[-1]]


def test_everybody_goes_once_in_each_turn() -> None:
    timer = MadeUpTimes(floor=500.0, rotta=600.0, plain=900.0)
    take_turns(timer.rounds(), timer, Budget(seconds=1.2, least=1))
    assert timer.order == ["floor", "rotta", "plain"] * 2 + ["floor"]


def test_the_dear_stop_after_the_least_and_the_cheap_at_the_most() -> None:
    timer, ended = MadeUpTimes(dear=60_000.0, cheap=0.001), list[str]()
    times = take_turns(timer.rounds(), timer, Budget(seconds=5, least=3, most=40), ended.append)
    assert {name: len(taken) for name, taken in times.items()} == {"dear": 3, "cheap": 40}
    assert ended == ["dear", "cheap"]
    assert times["dear"] == [60_000.0] * 3


@pytest.mark.parametrize(
    ("taken", "spent"),
    [([], False), ([9e9], False), ([1.0] * 2, False), ([1.0] * 199, False), ([0.0] * 200, True)],
)
def test_a_budget_ends(taken: list[float], spent: bool) -> None:
    assert Budget(seconds=1, least=2).is_spent(taken) is spent


def test_no_seconds_at_all_are_the_least_rounds() -> None:
    timer = MadeUpTimes(a=1.0)
    take_turns(timer.rounds(), timer, Budget(seconds=0))
    assert len(timer.order) == 3
