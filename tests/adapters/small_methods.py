"""Every method on a small network, streams for it, and fingerprints of its state."""

import hashlib
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from rotta.adapters import METHODS, Adapter, adapt
from rotta.models import build

SMALL_OPTIONS = {"capacity": 16, "update_every": 16, "passes": 2}
"""Given to every method that has them: updates come often, and cost little."""
EVERY = SMALL_OPTIONS["update_every"]

SEEDED = [name for name in METHODS if "seed" in (METHODS[name].__init__.__kwdefaults__ or {})]


def small_net() -> nn.Module:
    return build("wrn-10-1", 10, seed=3)


def tiny_net(channels: int = 3, num_classes: int = 10) -> nn.Sequential:
    """The least that all methods can adapt, on images of any size."""
    torch.manual_seed(0)
    layers = nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, num_classes))


def make(name: str, net: nn.Module | None = None, **options: Any) -> Adapter:
    defaults = METHODS[name].__init__.__kwdefaults__ or {}
    small = {key: value for key, value in SMALL_OPTIONS.items() if key in defaults}
    return adapt(net or small_net(), name, num_classes=10, **small | options)


def images(count: int, seed: int = 0, side: int = 16, channels: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, channels, side, side, generator=generator)


def stream(batches: int = 7, size: int = 7) -> list[Tensor]:
    """By default 49 samples: three updates, each within a batch, and one sample over."""
    return [images(size, seed) for seed in range(batches)]


def walk(model: Adapter, batches: list[Tensor]) -> list[Tensor]:
    return [model(x) for x in batches]


@cache
def usual(name: str) -> list[Tensor]:
    """What the method predicts on the usual stream, when nothing is out of the ordinary."""
    return walk(make(name), stream())


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    """Bit for bit."""
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def fingerprint(state: Any) -> str:
    """Of all tensors and plain values in it, however nested."""
    digest = hashlib.sha256()
    _feed(digest, state)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        digest.update(f"{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, dict):
        for key, item in value.items():
            digest.update(repr(key).encode())
            _feed(digest, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(digest, item)
    else:
        digest.update(repr(value).encode())
