"""The plain implementation and `rotta.RoTTA`: the same predictions, bank and parameters."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import rotta
from plain_rotta import PlainRoTTA
from rotta.models import load_source


def digits_like(count: int, seed: int, dtype: torch.dtype) -> Tensor:
    """Of very different contrast, so that several classes are predicted."""
    generator = torch.Generator().manual_seed(seed)
    contrast = torch.rand(count, 1, 1, 1, generator=generator)
    coarse = torch.rand(count, 3, 6, 6, generator=generator) * contrast
    return torch.nn.functional.interpolate(coarse, size=(32, 32), mode="bilinear").to(dtype)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)], ids=str
)
def test_the_two_agree_along_a_stream(dtype: torch.dtype, tolerance: float) -> None:
    net = load_source("digits").to(dtype)
    small = {"capacity": 16, "update_every": 16}
    fast, plain = rotta.RoTTA(net, 10, **small), PlainRoTTA(net, 10, **small)  # type: ignore[arg-type]
    labels = set()
    for seed, size in enumerate((1, 7, 16, 40, 5, 16, 30)):  # 115 samples: seven updates
        x = digits_like(size, seed, dtype)
        assert torch.allclose(plain.predict(x), fast.predict(x), atol=tolerance, rtol=tolerance)
        logits = fast(x)
        assert torch.allclose(plain(x), logits, atol=tolerance, rtol=tolerance)
        labels |= set(logits.argmax(dim=1).tolist())
    assert fast.updates == plain.seen // 16 == 7
    assert len(labels) >= 4
    samples = plain.bank.samples()
    held = slice(fast.bank.size())
    assert [sample.age for sample in samples] == fast.bank.age[held].tolist()
    assert torch.equal(torch.stack([s.image for s in samples]), fast.bank.images[held])
    classes = {s.place: c for c, found in enumerate(plain.bank.of_class) for s in found}
    assert [classes[place] for place in sorted(classes)] == fast.bank.label[held].tolist()


def test_updates_move_the_predictions() -> None:
    net = load_source("digits")
    plain = PlainRoTTA(net, 10, capacity=16, update_every=16, alpha=0.5, nu=0.5)
    x = digits_like(16, 0, torch.float32)
    before = plain(x)
    assert torch.allclose(before, net(x), atol=1e-4)
    assert not torch.allclose(plain.predict(x), before, atol=1e-2)
