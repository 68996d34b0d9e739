"""Which lost belief speaks for harm: that of a model which is surer than its reference, or much."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from rotta.guard.guard import DOUBT_LASTS, GRAVE, LOOK_EVERY, Guard, _extremes, _harm
from rotta.guard.rule import MOST_LOST

BATCH, CLASSES = 100, 10


class Told:
    """A method that says what it is told to, and notes what a guard does to it."""

    learns = True
    optimiser = None

    def __init__(self, reference: Tensor) -> None:
        self.reference = reference
        self.rate = 1.0
        self.asked = 0

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        self.asked += 1
        return self.reference

    def run_fast(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        return function(*inputs)

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        return [torch.ones(1)], [torch.ones(1)]

    def statistics(self) -> tuple[list[Tensor], list[Tensor]]:
        return [], []

    def snapshot(self) -> dict[str, Tensor]:
        return {}

    def put_back(self, snapshot: Mapping[str, Tensor] | None) -> None:
        pass

    def set_rate(self, factor: float) -> None:
        self.rate = factor


def answers(sureness: float, otherwise: int = 0) -> Tensor:
    """Logits for class 0, but for some images for class 1."""
    logits = torch.zeros(BATCH, CLASSES)
    logits[:, 0] = sureness
    logits[:otherwise] = logits[:otherwise].roll(1, dims=1)
    return logits


def watched(guard: Guard, sureness: float, otherwise: int, batches: int) -> Told:
    method = Told(answers(5.0))
    x = torch.zeros(BATCH, 1, 1, 1)
    for _ in range(batches):
        guard.may_learn(method)
        guard.look(method, x, answers(sureness, otherwise))
    return method


def test_a_surer_model_that_answers_otherwise_is_harmed() -> None:
    guard = Guard()
    method = watched(guard, sureness=7.0, otherwise=15, batches=LOOK_EVERY + 20)
    assert guard.in_doubt
    assert guard.events[0]["cause"] == "lost belief"
    assert method.rate < 1


def test_one_that_is_less_sure_is_not() -> None:
    guard = Guard()
    method = watched(guard, sureness=3.0, otherwise=15, batches=100 * LOOK_EVERY)
    assert guard.events == []
    assert not guard.in_doubt  # so it is looked at as seldom as a healthy one
    assert method.rate == 1


@pytest.mark.parametrize("sureness", [3.0, 7.0])
def test_much_is_harm_however_sure_it_is(sureness: float) -> None:
    guard = Guard()
    watched(guard, sureness, otherwise=round(1.5 * GRAVE * BATCH), batches=LOOK_EVERY + 20)
    assert guard.events[0]["cause"] == "lost belief"


def test_doubt_after_an_alarm_ends() -> None:
    guard = Guard()
    watched(guard, sureness=7.0, otherwise=15, batches=LOOK_EVERY + 20)
    assert len(guard.events) > 0
    method = watched(guard, sureness=3.0, otherwise=15, batches=3 * DOUBT_LASTS)
    assert DOUBT_LASTS / 2 < method.asked < 2 * DOUBT_LASTS


@pytest.mark.parametrize(
    ("lost", "entropy", "counts"),
    [
        (0.15, 0.9, 0.15),
        (0.15, 1.1, MOST_LOST),
        (0.15, 1.0, MOST_LOST),  # as sure as unlearnt is not surer
        (0.02, 1.1, 0.02),
        (0.25, 1.1, 0.25),
    ],
)
def test_what_counts_as_harm(lost: float, entropy: float, counts: float) -> None:
    assert _harm({"lost belief": lost, "entropy": entropy, "entropy unlearnt": 1.0}) == counts


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_one_odd_logit_is_seen(odd: float) -> None:
    logits = torch.zeros(4, 3)
    assert _extremes(logits).read().isfinite().all()
    logits[2, 1] = odd
    assert not _extremes(logits).read().isfinite().all()


def test_a_healthy_model_is_left_alone() -> None:
    guard = Guard()
    watched(guard, sureness=7.0, otherwise=2, batches=100 * LOOK_EVERY)
    assert guard.events == []


class Strayed(Told):
    """One whose parameters are far from where they were."""

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        return [torch.full((1,), 9.0)], [torch.ones(1)]


def test_what_is_put_back_costs_the_batch_that_it_predicted() -> None:
    guard, method = Guard(), Strayed(answers(5.0))
    may = []
    for _ in range(LOOK_EVERY + 4):
        may.append(guard.may_learn(method))
        if may[-1]:
            guard.look(method, torch.zeros(BATCH, 1, 1, 1), answers(5.0))
    assert may == [True] * LOOK_EVERY + [False, True, False, True]
    # a batch that is left out has come, too
    assert [event["batch"] for event in guard.events] == [LOOK_EVERY, LOOK_EVERY + 2]


def test_a_lower_rate_costs_none() -> None:
    guard, method = Guard(), Told(answers(5.0))
    while not guard.events:
        assert guard.may_learn(method)
        guard.look(method, torch.zeros(BATCH, 1, 1, 1), answers(7.0, otherwise=10))
    assert guard.events[0]["action"] == "lower the rate"


def test_what_is_not_finite_is_told_with_what_was_seen_of_it() -> None:
    guard, method = Guard(), Told(answers(5.0))
    for batch in range(LOOK_EVERY):
        guard.may_learn(method)
        odd = torch.nan if batch == LOOK_EVERY - 1 else 0
        guard.look(method, torch.zeros(BATCH, 1, 1, 1), answers(5.0) + odd)
    assert not guard.may_learn(method)
    (event,) = guard.events
    assert event["cause"] == "not finite"
    assert event["signals"]["entropy"] is None


def test_a_state_of_before_takes_back_what_was_not_judged_yet() -> None:
    guard, method = Guard(), Strayed(answers(5.0))
    old = {name: value for name, value in Guard().state().items() if name != "_asked"}
    for _ in range(LOOK_EVERY):
        guard.may_learn(method)
        guard.look(method, torch.zeros(BATCH, 1, 1, 1), answers(5.0))
    guard.load(old)
    assert guard.may_learn(method)
    assert guard.events == []
