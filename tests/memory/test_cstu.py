"""The bank of tensors holds what Algorithm 1 holds, on anything that can be presented."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_cstu import Item, PlainCSTU
from presenting import contents, images_of, present

from rotta.memory import cstu_line
from rotta.memory.cstu import CSTU, timeliness

# few distinct entropies make ties; long runs of one class make full classes
SAMPLES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.1, 0.5, 0.5, 1.0, 1.7])),
    min_size=1,
    max_size=60,
)


@given(
    samples=SAMPLES,
    capacity=st.sampled_from([1, 2, 3, 4, 6, 7, 12]),
    num_classes=st.sampled_from([1, 2, 3, 6, 6, 25]),
    batch=st.integers(1, 25),
    lambda_t=st.sampled_from([0.0, 1.0, 2.0]),
    lambda_u=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=1500, deadline=None)
def test_it_is_algorithm_1(
    samples: list[tuple[int, float]],
    capacity: int,
    num_classes: int,
    batch: int,
    lambda_t: float,
    lambda_u: float,
) -> None:
    samples = [(label % num_classes, entropy) for label, entropy in samples]
    plain = PlainCSTU(capacity, num_classes, lambda_t, lambda_u)
    bank = CSTU(capacity, num_classes, lambda_t=lambda_t, lambda_u=lambda_u)
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        names = list(range(start, start + len(part)))
        present(bank, names, [label for label, _ in part], [entropy for _, entropy in part])
        for name, (label, entropy) in zip(names, part, strict=True):
            plain.insert(name, label, entropy)
        assert contents(bank) == plain.contents()
        assert len(bank) == sum(len(items) for items in plain.bank)


@pytest.mark.parametrize("ahead", [0, cstu_line._AHEAD])
@pytest.mark.parametrize("num_classes", [2, 10, 64, 100])
@pytest.mark.parametrize("capacity", [64, 100])
def test_it_is_algorithm_1_at_the_papers_size(
    capacity: int, num_classes: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long correlated streams, as the method meets them: bursts of classes, rounded entropies."""
    monkeypatch.setattr(cstu_line, "_AHEAD", ahead)
    for seed in range(6):
        random = np.random.default_rng(seed)
        plain, bank = PlainCSTU(capacity, num_classes), CSTU(capacity, num_classes)
        labels = np.repeat(random.integers(num_classes, size=60), random.integers(1, 25, size=60))
        entropies = (random.random(len(labels)) * 2).round(seed % 3)
        for start in range(0, len(labels), 64):
            part = slice(start, start + 64)
            names = list(range(start, start + len(labels[part])))
            present(bank, names, labels[part].tolist(), entropies[part].tolist())
            for name in names:
                plain.insert(name, int(labels[name]), float(entropies[name]))
            assert contents(bank) == plain.contents()


def full_of(label: np.ndarray, uncertainty: np.ndarray) -> tuple[PlainCSTU, CSTU]:
    """The same full bank twice; one class more than it holds can come."""
    capacity, num_classes = len(label), int(label.max()) + 2
    plain, bank = PlainCSTU(capacity, num_classes), CSTU(capacity, num_classes)
    for name, (own, entropy) in enumerate(zip(label.tolist(), uncertainty.tolist(), strict=True)):
        plain.bank[own].append(Item(name, entropy, capacity - name))
    bank.images = images_of(list(range(capacity))).clone()
    bank.label.copy_(torch.from_numpy(label))
    bank.uncertainty.copy_(torch.from_numpy(uncertainty))
    bank.arrived.copy_(torch.arange(capacity))
    bank.clock.fill_(capacity)
    return plain, bank


@pytest.mark.parametrize("num_classes", [9, 1500, 2500])
def test_it_is_algorithm_1_in_a_large_bank(num_classes: int) -> None:
    random = np.random.default_rng(num_classes)
    label = np.sort(random.integers(num_classes, size=2000))
    plain, bank = full_of(label, random.random(2000))
    names = list(range(2000, 2080))
    labels = random.integers(num_classes, size=80).tolist()
    entropies = random.random(80).round(1).tolist()
    present(bank, names, labels, entropies)
    for name, own, entropy in zip(names, labels, entropies, strict=True):
        plain.insert(name, own, entropy)
    assert contents(bank) == plain.contents()
    assert {name for name, _, _ in contents(bank)} & set(names)


def test_single_precision_decides_as_double_does() -> None:
    """The entropies come in the network's precision; what is made of them does not stay there."""
    single, double = CSTU(16, 10), CSTU(16, 10)
    draws = torch.Generator().manual_seed(0)
    for _ in range(20):
        x = torch.rand(30, 3, 1, 1, generator=draws)
        label = torch.randint(10, (30,), generator=draws)
        entropy = torch.rand(30, generator=draws)
        entropy[::7] = math.nan
        single.insert(x, label, entropy)
        double.insert(x, label, entropy.double())
        for name, tensor in single.state_dict().items():
            assert torch.equal(tensor, double.state_dict()[name]), name


@pytest.mark.parametrize("no_number", [math.nan, math.inf])
def test_a_prediction_that_is_no_number_does_not_stay(no_number: float) -> None:
    bank = CSTU(4, 2)
    present(bank, [0, 1], [0, 0], [no_number, 0.1])
    assert bank.uncertainty[0] == math.log(2)
    present(bank, list(range(2, 30)), [0] * 28, [0.1] * 28)
    assert 0 not in {name for name, _, _ in contents(bank)}


@pytest.mark.parametrize(("num_classes", "most"), [(10, 7), (100, 1), (2, 32), (64, 1), (3, 22)])
def test_the_quota_is_a_real_number(num_classes: int, most: int) -> None:
    bank = CSTU(64, num_classes)
    present(bank, list(range(200)), [0] * 200, [0.3] * 200)
    assert int((bank.label == 0).sum()) == most == len(bank)


def test_ages_beyond_a_thousand_still_count() -> None:
    """In float32 the ages 1,200 and 1,300 would score alike, and the later one would go."""
    bank = CSTU(64, 1)
    present(bank, list(range(64)), [0] * 64, [0.0] * 64)
    bank.clock.fill_(1300)
    bank.arrived.fill_(100)
    bank.arrived[5] = 0
    present(bank, [64], [0], [0.0])
    assert {name for name, _, _ in contents(bank)} == set(range(65)) - {5}


def test_with_more_classes_than_places_it_fills_up() -> None:
    bank = CSTU(8, 345)
    present(bank, list(range(50)), list(range(50)), [0.5] * 50)
    assert len(bank) == 8


def test_its_state_is_complete(tmp_path: Path) -> None:
    bank, other = CSTU(4, 3), CSTU(4, 3)
    present(bank, [1, 2, 3], [0, 1, 1], [0.1, 0.2, 0.3])
    torch.save(bank.state_dict(), tmp_path / "bank.pt")
    other.load_state_dict(torch.load(tmp_path / "bank.pt", weights_only=True))
    for target in (bank, other):
        present(target, [4, 5, 6], [1, 2, 2], [0.0, 0.2, 0.9])
    assert contents(bank) == contents(other)


def test_older_samples_weigh_less() -> None:
    weights = timeliness(torch.tensor([0.0, 10.0, 100.0]), 64)
    assert weights[0] == 0.5
    assert (weights.diff() < 0).all()
