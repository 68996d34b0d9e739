"""RoTTA on a leash: the paper's method without it, the source's γ and β with a short one."""

from typing import Any

import pytest
import torch
from torch import Tensor

import rotta
from rotta.adapters.lasting import LastingRoTTA, divergence

OFF: dict[str, Any] = {"anchor": 0.0, "pull": 0.0, "pull_by_divergence": 0.0, "slowing": 0.0}


def batches(number: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(40, 3, 32, 32, generator=generator) for _ in range(number)]


def affine(model: rotta.RoTTA) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model._student_affine])


def test_without_the_leash_it_is_the_papers_method() -> None:
    net = rotta.load_source("digits")
    plain, lasting = rotta.RoTTA(net, 10), LastingRoTTA(net, 10, **OFF)
    for x in batches(6):
        torch.testing.assert_close(lasting(x), plain(x), rtol=0, atol=1e-5)
    assert plain.updates == lasting.updates == 3


def test_a_leash_of_no_length_keeps_the_source() -> None:
    net = rotta.load_source("digits")
    held = LastingRoTTA(net, 10, **{**OFF, "pull": 1.0})
    start = affine(held).clone()
    for x in batches(4):
        held(x)
    assert held.updates == 2
    torch.testing.assert_close(affine(held), start, rtol=0, atol=1e-7)


def distance(**options: float) -> float:
    model = LastingRoTTA(rotta.load_source("digits"), 10, lr=0.01, **{**OFF, **options})
    start = affine(model).clone()
    for x in batches(10):
        model(x)
    return float((affine(model) - start).norm())


def test_every_leash_keeps_it_nearer() -> None:
    free = distance()
    assert distance(pull=0.1) < 0.95 * free
    assert distance(pull_by_divergence=1.0) < free


def test_the_anchor_is_a_target_too() -> None:
    assert distance(anchor=5.0) != pytest.approx(distance(), rel=1e-3)


def test_the_teacher_slows_down_with_divergence() -> None:
    def moved(slowing: float) -> float:
        options = {**OFF, "slowing": slowing}
        model = LastingRoTTA(rotta.load_source("digits"), 10, nu=0.5, lr=0.05, **options)
        start = [p.detach().clone() for p in model._teacher_affine]
        for x in batches(10):
            model(x)
        return sum(float((p - s).norm()) for p, s in zip(model._teacher_affine, start, strict=True))

    assert moved(20.0) < 0.9 * moved(0.0)


def test_the_anchor_pass_leaves_the_teacher_as_it_is() -> None:
    model = LastingRoTTA(rotta.load_source("digits"), 10)
    for x in batches(2):
        model(x)
    before = {name: value.clone() for name, value in model.teacher.state_dict().items()}
    with torch.no_grad():
        model._anchor_logits(batches(1)[0])
    for name, value in model.teacher.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_divergence_is_between_0_and_1_and_symmetric() -> None:
    p = torch.softmax(torch.randn(50, 7, generator=torch.Generator().manual_seed(1)), dim=1)
    q = p.flip(0)
    assert float(divergence(p, p)) == pytest.approx(0, abs=1e-6)
    assert 0 < float(divergence(p, q)) < 1
    assert float(divergence(p, q)) == pytest.approx(float(divergence(q, p)))
