"""The floor does RoTTA's passes, as often, and trains γ and β alone."""

import pytest
import torch
from torch import Tensor, nn

from rotta.bench.cell import calls_per_round
from rotta.bench.floor import Bare, Floor
from rotta.bench.workload import make_workload
from rotta.nn.surgery import BATCH_NORMS, affine_parameters

LOAD = make_workload("wrn-10-1", image_size=8)


def made() -> Floor:
    return Floor(LOAD.net, LOAD.images[:64])


def updates(floor: Floor) -> int:
    """As its optimiser counts them."""
    steps = {int(state["step"]) for state in floor.optimiser.state.values()}
    assert len(steps) <= 1
    return max(steps, default=0)


def copied(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def test_it_predicts_what_the_network_does_and_changes_nothing_by_that() -> None:
    floor, x = made(), LOAD.images[:5]
    before = copied(floor.teacher)
    assert torch.equal(floor.predict(x), LOAD.net(x))
    assert torch.equal(floor.predict(x), Bare(LOAD.net).predict(x))
    assert all(torch.equal(before[name], now) for name, now in floor.teacher.state_dict().items())
    assert not floor.predict(x).requires_grad


def test_an_update_trains_gamma_and_beta_of_the_student_alone() -> None:
    floor, given = made(), copied(LOAD.net)
    before = copied(floor.student)
    floor(LOAD.images[:64])
    trained = {id(p) for p in affine_parameters(floor.student, BATCH_NORMS)}
    for name, parameter in floor.student.named_parameters():
        is_trained = id(parameter) in trained
        assert parameter.requires_grad == is_trained == (parameter.grad is not None)
        assert torch.equal(before[name], parameter) != is_trained
    assert not any(p.requires_grad for p in floor.teacher.parameters())
    assert all(torch.equal(given[name], now) for name, now in LOAD.net.state_dict().items())
    assert not floor.student.training


def test_both_passes_of_an_update_normalise_by_the_batch() -> None:
    floor = made()
    before = [copied(net)["bn1.running_mean"] for net in (floor.teacher, floor.student)]
    floor(LOAD.images[:64])
    after = [net.state_dict()["bn1.running_mean"] for net in (floor.teacher, floor.student)]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(("batch", "calls", "expected"), [(1, 64, 1), (48, 4, 3), (256, 1, 4)])
def test_a_round_has_a_whole_number_of_updates(batch: int, calls: int, expected: int) -> None:
    floor = made()
    x = LOAD.images[torch.arange(batch) % 64]
    assert calls_per_round(batch, floor.update_every) == calls
    for rounds in (1, 2):
        for _ in range(calls):
            floor(x)
        assert updates(floor) == rounds * expected
