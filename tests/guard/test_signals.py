"""Signals, each against the slow and obvious."""

import math

import pytest
import torch

from rotta.adapters.adam import adam
from rotta.guard.signals import (
    SIGNALS,
    all_signals,
    disagreement,
    distance,
    effective_classes,
    gradient_norm,
    histogram,
    lost_belief,
    mean_entropy,
)

A = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)) * 3
B = torch.randn(9, 5, generator=torch.Generator().manual_seed(1)) * 3


def test_lost_belief_is_what_it_says() -> None:
    theirs = own = 0.0
    for a, b in zip(A, B, strict=True):
        p = b.softmax(dim=0)
        theirs += p[a.argmax()].item()
        own += p.max().item()
    assert lost_belief(A, B).item() == pytest.approx(1 - theirs / own, rel=1e-5)


def test_the_same_answers_lose_nothing() -> None:
    assert lost_belief(5 * B, B).item() == pytest.approx(0, abs=1e-6)
    assert disagreement(5 * B, B).item() == 0


def test_a_single_class_for_all_loses_much_even_if_most_images_are_of_one_class() -> None:
    """What counts is the same images' answers, not how many classes there are in a batch."""
    narrow = torch.zeros(64, 5)
    narrow[:, 1] = 6
    assert lost_belief(narrow, narrow).item() == pytest.approx(0, abs=1e-6)
    collapsed = torch.zeros(64, 5)
    collapsed[:, 3] = 9
    assert lost_belief(collapsed, narrow).item() > 0.9


def test_counts_and_entropies() -> None:
    assert disagreement(A, B).item() == pytest.approx(
        sum(a.argmax() != b.argmax() for a, b in zip(A, B, strict=True)) / 9
    )
    assert histogram(A).tolist() == [sum(a.argmax() == c for a in A) for c in range(5)]
    assert mean_entropy(torch.zeros(3, 5)).item() == pytest.approx(math.log(5))
    assert effective_classes(torch.tensor([2.0, 2.0, 2.0, 0.0])).item() == pytest.approx(3)
    assert effective_classes(torch.tensor([7.0, 0.0])).item() == pytest.approx(1)


def test_distance_is_relative_to_the_start() -> None:
    start = [torch.tensor([3.0]), torch.tensor([4.0, 0.0])]
    assert distance([10 * t for t in start], start).item() == pytest.approx(9)


def test_the_gradient_is_adams_mean() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    optimiser = adam([parameter], 1e-3)
    assert gradient_norm(optimiser, A).item() == 0
    assert gradient_norm(None, A).item() == 0
    parameter.grad = torch.tensor([3.0, 4.0])
    optimiser.step()
    assert gradient_norm(optimiser, A).item() == pytest.approx(0.5)


def test_all_of_them_at_once() -> None:
    own, start = [torch.ones(3)], [torch.full((3,), 2.0)]
    first = all_signals(A, B, torch.zeros(2, 5), (own, start), ([], []), None)
    found = dict(zip(SIGNALS, first[:9].tolist(), strict=True))
    answers = first[9:].view(2, 5)
    assert found["lost belief"] == lost_belief(A, B).item()
    assert found["disagreement"] == disagreement(A, B).item()
    assert found["entropy"] == mean_entropy(A).item()
    assert found["entropy unlearnt"] == mean_entropy(B).item()
    assert found["classes unlearnt"] == effective_classes(histogram(B)).item()
    assert (found["parameter distance"], found["statistics distance"]) == (0.5, 0)
    assert torch.equal(answers, torch.stack([histogram(A), histogram(B)]))
    second = all_signals(B, A, answers, (own, start), ([], []), None)
    mixed = 0.75 * histogram(A) + 0.25 * histogram(B)
    assert torch.allclose(second[9:].view(2, 5)[0], mixed)
    assert second[SIGNALS.index("classes")].item() == pytest.approx(effective_classes(mixed).item())
