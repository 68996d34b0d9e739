"""The reservoir of tensors holds what the reservoir of lists holds, on the same draws."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_pbrs import PlainPBRS
from presenting import contents, present

from rotta.memory.pbrs import PBRS


def bank_of(capacity: int, num_classes: int, seed: int = 0) -> PBRS:
    return PBRS(capacity, num_classes, torch.Generator().manual_seed(seed))


def show(bank: PBRS, names: list[int], labels: list[int]) -> None:
    present(bank, names, labels, [0.0] * len(names))


# long runs of one class fill the reservoir with it
LABELS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 6)).map(lambda run: [run[0]] * run[1]),
    min_size=1,
    max_size=10,
).map(lambda runs: [label for run in runs for label in run])


@given(
    labels=LABELS,
    capacity=st.sampled_from([1, 2, 3, 4, 7, 12]),
    num_classes=st.sampled_from([1, 2, 3, 6, 25]),
    batch=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=600)
def test_it_is_the_plain_reservoir(
    labels: list[int], capacity: int, num_classes: int, batch: int, seed: int
) -> None:
    """Whatever the batch: the plain one takes samples one by one."""
    labels = [label % num_classes for label in labels]
    bank, plain = bank_of(capacity, num_classes, seed), PlainPBRS(capacity)
    draws = torch.Generator().manual_seed(seed)
    for start in range(0, len(labels), batch):
        part = labels[start : start + batch]
        names = list(range(start, start + len(part)))
        show(bank, names, part)
        for name, label in zip(names, part, strict=True):
            draw = torch.rand(3, generator=draws, dtype=torch.float64).tolist()
            plain.insert(name, label, draw)
        size = bank.size()
        held = bank.images[:size, 0, 0, 0].long().tolist()
        assert list(zip(held, bank.label[:size].tolist(), strict=True)) == plain.held
        assert bank.seen.tolist() == [plain.seen[c] for c in range(num_classes)]


def test_ages_count_what_was_presented_since() -> None:
    bank = bank_of(4, 2)
    show(bank, list(range(30)), [i % 2 for i in range(30)])
    assert all(age == 30 - name for name, _, age in contents(bank))


def test_no_class_outgrows_the_others() -> None:
    bank = bank_of(12, 3)
    show(bank, list(range(600)), [0] * 500 + [1] * 50 + [2] * 50)
    assert torch.bincount(bank.label).tolist() == [4, 4, 4]


def test_every_sample_of_a_class_is_as_likely_to_stay() -> None:
    """The reservoir's promise: early and late samples of one class are held alike."""
    early = 0
    for seed in range(300):
        bank = bank_of(10, 2, seed)
        show(bank, list(range(40)), [0] * 40)
        early += sum(name < 20 for name, _, _ in contents(bank))
    assert early / 3000 == pytest.approx(0.5, abs=0.05)


def test_its_state_and_its_generators_are_complete(tmp_path: Path) -> None:
    bank, other = bank_of(4, 3), bank_of(4, 3, seed=7)
    show(bank, list(range(20)), [i % 3 for i in range(20)])
    torch.save((bank.state_dict(), bank.generator.get_state()), tmp_path / "bank.pt")
    state, generator = torch.load(tmp_path / "bank.pt", weights_only=True)
    other.load_state_dict(state)
    other.generator.set_state(generator)
    for target in (bank, other):
        show(target, list(range(20, 60)), [i // 9 % 3 for i in range(40)])
    assert contents(bank) == contents(other)
    assert torch.equal(bank.label, other.label)
