"""Many banks filled at once are the banks that CSTU fills one by one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rotta.memory.cstu import CSTU
from rotta.pool.banks import Banks, Newcomers

CAPACITY = 7

# few different values, so that scores tie
Sample = st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, float("nan")]))
Arrivals = st.dictionaries(st.integers(0, 4), st.lists(Sample, min_size=1, max_size=9), min_size=1)


def newcomers(arriving: dict[int, list[tuple[int, float]]], first: int) -> Newcomers:
    """Images whose pixels tell who they are."""
    samples = [sample for of_row in arriving.values() for sample in of_row]
    sizes = np.array([len(of_row) for of_row in arriving.values()])
    count = torch.arange(first, first + len(samples), dtype=torch.float32)
    label, uncertainty = zip(*samples, strict=True)
    return Newcomers(
        rows=np.array(list(arriving)),
        starts=sizes.cumsum() - sizes,
        sizes=sizes,
        images=count.view(-1, 1, 1, 1).expand(-1, 3, 2, 2),
        label=np.array(label),
        uncertainty=np.array(uncertainty),
    )


@given(st.lists(Arrivals, max_size=8), st.sampled_from([1.0, 0.0]), st.sampled_from([4, 5]))
def test_banks_are_those_of_cstu(
    turns: list[dict[int, list[tuple[int, float]]]], lambda_t: float, num_classes: int
) -> None:
    banks = Banks(CAPACITY, num_classes, lambda_t=lambda_t, lambda_u=1.0)
    single = {row: CSTU(CAPACITY, num_classes, lambda_t=lambda_t) for row in range(5)}
    for row in single:
        banks.open(row)
    presented = 0
    for turn in turns:
        arriving = newcomers(turn, presented)
        presented += len(arriving.images)
        banks.insert(arriving)
        label, uncertainty = map(torch.from_numpy, (arriving.label, arriving.uncertainty))
        for row, start, size in zip(
            arriving.rows.tolist(), arriving.starts, arriving.sizes, strict=True
        ):
            own = slice(start, start + size)
            single[row].insert(arriving.images[own], label[own], uncertainty[own])
    for row, bank in single.items():
        held, size = banks.held(row), bank.size()
        assert held.label.tolist() == bank.label[:size].tolist()
        assert held.arrived.tolist() == bank.arrived[:size].tolist()
        assert held.uncertainty.tolist() == bank.uncertainty[:size].tolist()
        assert held.clock == int(bank.clock)
        if size:
            assert torch.equal(held.images, bank.images[:size])


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_cleared_bank_begins_anew_and_others_keep_theirs(count: int) -> None:
    banks = Banks(CAPACITY, 4, lambda_t=1.0, lambda_u=1.0)
    for row in range(count):
        banks.open(row)
        banks.insert(newcomers({row: [(1, 0.5), (2, 0.1)]}, first=10 * row))
    banks.clear(0)
    banks.insert(newcomers({0: [(3, 0.2)]}, first=1000))
    assert banks.images(0).flatten().tolist() == [1000.0] * 12
    for row in range(1, count):
        assert banks.images(row)[:, 0, 0, 0].tolist() == [10 * row, 10 * row + 1]
