"""What every bank promises: places fill in order, stay filled, and are counted without waiting."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from presenting import present

from rotta.memory.bank import Bank
from rotta.memory.cstu import CSTU
from rotta.memory.pbrs import PBRS
from rotta.memory.recent import Recent

BANKS: list[Callable[[int], Bank]] = [
    lambda capacity: CSTU(capacity, num_classes=5),
    lambda capacity: PBRS(capacity, num_classes=5, generator=torch.Generator().manual_seed(0)),
    Recent,
]
every_bank = pytest.mark.parametrize("make", BANKS, ids=["cstu", "pbrs", "recent"])


def fill(bank: Bank, count: int) -> None:
    present(bank, list(range(count)), [i % 5 for i in range(count)], [0.5] * count)


@every_bank
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    capacity=st.sampled_from([1, 3, 8, 30]),
    batch=st.integers(1, 15),
)
def test_places_fill_in_order_and_stay_filled(
    make: Callable[[int], Bank], labels: list[int], capacity: int, batch: int
) -> None:
    bank, before = make(capacity), 0
    for start in range(0, len(labels), batch):
        part = labels[start : start + batch]
        present(bank, list(range(start, start + len(part))), part, [0.1] * len(part))
        size = bank.size()
        assert before <= size <= capacity
        assert (bank.label[:size] >= 0).all()
        assert (bank.label[size:] == -1).all()
        before = size


@every_bank
def test_a_full_bank_is_not_counted_again(
    make: Callable[[int], Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = make(10)
    fill(bank, 20)
    assert bank.size() == 10
    monkeypatch.delattr(bank, "label")  # there is nothing left to ask
    assert bank.size() == len(bank) == 10


@every_bank
def test_a_state_that_is_loaded_is_counted_anew(make: Callable[[int], Bank]) -> None:
    bank, half_full = make(10), make(10)
    fill(bank, 20)
    fill(half_full, 5)
    assert bank.size() == 10
    bank.load_state_dict(half_full.state_dict())
    assert bank.size() == 5
    fill(bank, 20)
    assert bank.size() == 10
