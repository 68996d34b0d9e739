"""LAME beside loops over samples and classes."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_methods import images, make, small_net
from torch import Tensor

from rotta.adapters.lame import (
    _in_advance,
    _step_by_step,
    laplacian_adjusted,
    nearest_neighbours,
)

Floats = NDArray[np.float64]


def draws(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def plain_closeness(features: Floats) -> list[list[float]]:
    """Cosine of each pair."""
    unit = [row / np.linalg.norm(row) for row in features]
    return [[float(a @ b) for b in unit] for a in unit]


def plain_neighbours(features: Floats, count: int) -> list[list[int]]:
    closeness = plain_closeness(features)
    found = []
    for i, row in enumerate(closeness):
        others = sorted((j for j in range(len(row)) if j != i), key=lambda j: -row[j])
        found.append(others[:count])
    return found


def plain_lame(p: Floats, neighbours: list[list[int]]) -> Floats:
    """At most 100 rounds; stops where the energy changes by 1e-8 of itself or less."""
    log_p = np.log(p + 1e-10)
    y, old_energy = p, math.inf
    for _ in range(100):
        pull = np.array([sum((y[j] for j in near), np.zeros(p.shape[1])) for near in neighbours])
        exponent = log_p + pull
        y = np.exp(exponent - exponent.max(1, keepdims=True))
        y = y / y.sum(1, keepdims=True)
        energy = 0.0
        for i in range(len(y)):
            for c in range(y.shape[1]):
                energy += y[i, c] * (math.log(max(y[i, c], 1e-300)) - log_p[i, c] - pull[i, c])
        if math.isfinite(old_energy) and abs(energy - old_energy) <= 1e-8 * abs(old_energy):
            break
        old_energy = energy
    return y


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 6, 7, 40])
@pytest.mark.parametrize("sharpness", [0.3, 3.0, 30.0])
def test_it_is_the_plain_iteration(batch: int, sharpness: float) -> None:
    features, logits = draws(batch, 12, seed=batch), draws(batch, 4, seed=99) * sharpness
    p = logits.softmax(1)
    neighbours = plain_neighbours(features.numpy(), 5)
    affinity = nearest_neighbours(features, 5)
    assert [row.nonzero().flatten().tolist() for row in affinity] == [sorted(n) for n in neighbours]
    ours = laplacian_adjusted((p + 1e-10).log(), affinity).exp()
    assert np.allclose(ours.numpy(), plain_lame(p.numpy(), neighbours), atol=1e-9)


def test_duplicates_have_each_other_but_never_themselves_for_neighbours() -> None:
    """Which of several equally near is left open; how near the chosen are is not."""
    features = draws(4, 6).repeat(3, 1)
    affinity = nearest_neighbours(features, 5)
    closeness = plain_closeness(features.numpy())
    assert affinity.diagonal().eq(0).all()
    assert affinity.sum(1).eq(5).all()
    for i, neighbours in enumerate(plain_neighbours(features.numpy(), 5)):
        chosen = affinity[i].nonzero().flatten().tolist()
        ours = sorted(closeness[i][j] for j in chosen)
        assert ours == pytest.approx(sorted(closeness[i][j] for j in neighbours), abs=1e-12)
        assert {j for j in range(12) if j % 4 == i % 4 and j != i} <= set(chosen)


def test_features_of_zero_are_nobodys_trouble() -> None:
    affinity = nearest_neighbours(torch.zeros(4, 3), 5)
    assert torch.equal(affinity, 1 - torch.eye(4))


def test_the_bound_on_the_steps_is_kept() -> None:
    log_p = draws(20, 4).log_softmax(1)
    affinity = nearest_neighbours(draws(20, 6, seed=1), 5)
    one = laplacian_adjusted(log_p, affinity, max_steps=1)
    assert torch.allclose(one, (log_p + affinity @ log_p.exp()).log_softmax(1))
    assert not torch.allclose(one, laplacian_adjusted(log_p, affinity, max_steps=2))


@pytest.mark.parametrize("max_steps", [1, 2, 9, 10, 11, 20, 23, 100])
@pytest.mark.parametrize("tolerance", [0.0, 1e-8, 1e-4, 1e-2, 1e9])
def test_steps_in_advance_stop_where_steps_one_by_one_do(max_steps: int, tolerance: float) -> None:
    """What GPUs do; it ends within the first ten steps, later, or at the bound."""
    log_p = (draws(40, 4) * 3).log_softmax(1)
    given = log_p, nearest_neighbours(draws(40, 6, seed=1), 5), max_steps, tolerance
    assert torch.allclose(_in_advance(*given), _step_by_step(*given), rtol=0, atol=1e-12)


def test_steps_in_advance_end_soon_after_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is done in vain is what the device does while its answer is under way."""
    done, addmm = [], torch.addmm

    def counted(*tensors: Tensor) -> Tensor:
        done.append(addmm(*tensors))
        return done[-1]

    monkeypatch.setattr(torch, "addmm", counted)
    log_p = (draws(40, 4) * 3).log_softmax(1)
    _in_advance(log_p, nearest_neighbours(draws(40, 6, seed=1), 5), 100, 1e9)
    assert len(done) == 20


def test_the_method_is_the_iteration_on_penultimate_features() -> None:
    net = small_net().eval()
    x = images(30)
    with torch.no_grad():
        p = net(x).double().softmax(1)
        features = net.features(x).double()  # type: ignore[operator]
    expected = plain_lame(p.numpy(), plain_neighbours(features.numpy(), 5))
    assert np.allclose(make("lame", net)(x).exp().numpy(), expected, atol=1e-4)


def test_one_sample_is_predicted_as_by_the_source() -> None:
    x = images(1)
    lame, source = make("lame")(x).softmax(1), make("source")(x).softmax(1)
    assert torch.allclose(lame, source, atol=1e-6)
