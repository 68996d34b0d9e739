import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotta.datasets.base import Labels
from rotta.streams.labels import dirichlet, iid


def balanced(num_classes: int, per_class: int) -> Labels:
    return np.tile(np.arange(num_classes), per_class)


def ordered(labels: Labels, delta: float, seed: int) -> Labels:
    """The labels in the order in which they arrive."""
    rng = np.random.default_rng(seed)
    return labels[dirichlet(labels, int(labels.max()) + 1, delta, rng)]


def concentration(labels: Labels, window: int, num_classes: int) -> float:
    """Chance that two draws from a window are of one class, averaged over the windows."""
    windows = labels[: len(labels) // window * window].reshape(-1, window)
    shares = np.stack([np.bincount(w, minlength=num_classes) / window for w in windows])
    return float((shares**2).sum(axis=1).mean())


@given(
    labels=st.lists(st.integers(0, 11), max_size=200),
    spare_classes=st.integers(0, 150),
    delta=st.one_of(st.floats(1e-300, 1e300), st.sampled_from([1e-3, 0.1, 1.0, 1.7e308, math.inf])),
    seed=st.integers(0, 2**32),
)
def test_every_sample_comes_exactly_once(
    labels: list[int], spare_classes: int, delta: float, seed: int
) -> None:
    array = np.array(labels, dtype=np.int64)
    order = dirichlet(array, 12 + spare_classes, delta, np.random.default_rng(seed))
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(len(labels)))


@given(delta=st.sampled_from([0.001, 0.1, 10.0]), seed=st.integers(0, 2**32))
def test_a_class_keeps_its_own_order(delta: float, seed: int) -> None:
    labels = balanced(6, 20)
    order = dirichlet(labels, 6, delta, np.random.default_rng(seed))
    for label in range(6):
        members = order[labels[order] == label]
        np.testing.assert_array_equal(members, np.flatnonzero(labels == label))


def test_infinite_delta_is_the_plain_shuffle() -> None:
    labels = balanced(10, 50)
    shuffled = iid(labels, np.random.default_rng(7))
    np.testing.assert_array_equal(
        dirichlet(labels, 10, math.inf, np.random.default_rng(7)), shuffled
    )


def test_infinite_delta_has_independent_neighbours() -> None:
    num_classes, per_class = 10, 400
    labels = balanced(num_classes, per_class)
    equal = [np.mean(np.diff(ordered(labels, math.inf, seed)) == 0) for seed in range(10)]
    # 40,000 pairs: one standard error is 0.0015
    assert np.mean(equal) == pytest.approx(1 / num_classes, abs=0.006)


def test_large_delta_fills_every_slot_alike() -> None:
    num_classes, per_class = 10, 100
    arrivals = ordered(balanced(num_classes, per_class), 1e9, seed=3)
    for slot in arrivals.reshape(num_classes, -1):
        assert np.abs(np.bincount(slot, minlength=num_classes) - 10).max() <= 1


def test_huge_delta_does_not_overflow() -> None:
    slots = ordered(balanced(10, 100), 1.7e308, seed=0).reshape(10, -1)
    assert all(len(np.unique(slot)) == 10 for slot in slots)


def test_smaller_delta_is_more_correlated() -> None:
    num_classes, per_class = 10, 100
    labels = balanced(num_classes, per_class)
    ladder = [math.inf, 10.0, 1.0, 0.1, 0.01]
    measured = [
        np.mean([concentration(ordered(labels, d, s), per_class, num_classes) for s in range(8)])
        for d in ladder
    ]
    assert measured[0] == pytest.approx(1 / num_classes, abs=0.02)
    assert np.all(np.diff(measured) > 0.005), measured
    assert measured[-1] > 0.6


def test_tiny_delta_gives_one_block_per_class() -> None:
    num_classes = 20
    for seed in range(20):
        arrivals = ordered(balanced(num_classes, 30), 1e-9, seed)
        assert np.count_nonzero(np.diff(arrivals)) == num_classes - 1


def test_tiny_delta_may_put_a_class_anywhere() -> None:
    """Guards against draws that underflow into one and the same slot."""
    labels = balanced(4, 5)
    first = [ordered(labels, 1e-6, seed)[0] for seed in range(80)]
    assert np.bincount(first, minlength=4).min() >= 8


def test_classes_take_turns_at_random_inside_a_slot() -> None:
    labels = balanced(3, 30)
    first = {int(ordered(labels, 1e9, seed)[0]) for seed in range(40)}
    assert first == {0, 1, 2}


def test_never_more_than_a_hundred_slots() -> None:
    # With δ → ∞ every class has a block in every slot, so the blocks of one class count them.
    labels = balanced(250, 400)
    arrivals = ordered(labels, 1e9, seed=0)
    is_first = np.concatenate([[0], (arrivals == 0).astype(np.int64), [0]])
    assert 95 <= np.count_nonzero(np.diff(is_first) == 1) <= 100


@pytest.mark.parametrize("delta", [0.0, -1.0, math.nan, -math.inf])
def test_delta_must_be_positive(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must be greater than 0"):
        dirichlet(balanced(2, 2), 2, delta, np.random.default_rng(0))


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_must_be_classes(label: int) -> None:
    with pytest.raises(ValueError, match=r"labels must lie in 0 … 2"):
        dirichlet(np.array([0, label]), 3, 0.1, np.random.default_rng(0))
