"""The rule: how seldom it is wrong, and how soon it is right."""

import random

import pytest

from rotta.guard.rule import MOST_LOST, EvidenceOfHarm


def looks_to_an_alarm(draw: random.Random, most: int, mean: float, enough: int) -> int:
    """Scores of 0 and 1 have the widest spread of all with a given mean."""
    evidence = EvidenceOfHarm(looks_per_false_alarm=enough)
    for look in range(1, most + 1):
        evidence.add(float(draw.random() < mean))
        if evidence.is_enough:
            return look
    return most


def test_false_alarms_are_as_rare_as_stated() -> None:
    """At the limit of what is healthy; cut off, which makes the mean smaller."""
    draw = random.Random(0)
    times = [looks_to_an_alarm(draw, 3000, MOST_LOST, enough=100) for _ in range(200)]
    assert sum(times) / len(times) >= 100


def test_what_is_truly_healthy_raises_no_alarm() -> None:
    draw = random.Random(0)
    assert looks_to_an_alarm(draw, 50_000, MOST_LOST / 6, enough=10_000) == 50_000


@pytest.mark.parametrize(("score", "looks"), [(1.0, 5), (0.5, 6), (0.2, 12), (0.12, 21)])
def test_harm_is_found_soon(score: float, looks: int) -> None:
    evidence = EvidenceOfHarm()
    for _ in range(looks - 1):
        evidence.add(score)
    assert not evidence.is_enough
    evidence.add(score)
    assert evidence.is_enough


def test_the_bound_is_a_supermartingale() -> None:
    """E[R_t | past] = 1 + R_{t−1} at the limit, for scores of two values."""
    evidence = EvidenceOfHarm()
    for past in (0.0, 3.0, 500.0):
        mean = 0.0
        for score, share in ((1.0, MOST_LOST), (0.0, 1 - MOST_LOST)):
            evidence.value = past
            evidence.add(score)
            assert evidence.value >= 0
            mean += share * evidence.value
        assert mean == pytest.approx(1 + past)


def test_it_can_start_anew() -> None:
    evidence = EvidenceOfHarm()
    evidence.add(1.0)
    evidence.forget()
    assert evidence.value == 0
