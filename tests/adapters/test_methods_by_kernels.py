"""RoTTA with its kernels for CUDA, run on a CPU by Triton's interpreter, beside RoTTA without.

What is decided before a kernel is called, in which order, and with what: no GPU is needed for that.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_methods import EVERY, make, small_net, stream, walk
from torch import Tensor, nn

from cuda_kernels import interpreted, serving_all
from rotta.memory import cstu_cuda
from rotta.nn import augment_cuda, norm_cuda

pytestmark = interpreted

KERNELS = (
    (norm_cuda, "normalise"),
    (norm_cuda, "move_and_normalise"),
    (norm_cuda, "backward"),
    (cstu_cuda, "decide"),
    (cstu_cuda, "move_in"),
    (augment_cuda, "strong_view"),
)
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("rotta", {}),
    ("rotta", {"guard": True}),
    ("rotta", {"class_mix": True, "bad_input": "skip"}),
    ("rotta", {"reset_every": 3 * EVERY}),
    ("rotta-lasting", {"guard": True}),
]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How often each kernel was."""
    counts = {name: 0 for _, name in KERNELS}

    def counting(name: str, kernel: Any) -> Any:
        def count(*inputs: Any) -> Any:
            counts[name] += 1
            return kernel(*inputs)

        return count

    for module, name in KERNELS:
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
    with serving_all():
        yield counts


def net_in_channels_last() -> nn.Module:
    net = small_net()
    for conv in net.modules():
        if isinstance(conv, nn.Conv2d):
            conv.weight.data = conv.weight.data.contiguous(memory_format=torch.channels_last)
    return net


def batches() -> list[Tensor]:
    """Several updates, within batches and at their ends."""
    return [x.contiguous(memory_format=torch.channels_last) for x in stream(7, size=11)]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
def test_it_learns_what_it_learns_without_them(
    name: str, options: dict[str, Any], called: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_kernels = walk(make(name, net_in_channels_last(), **options), batches())
    assert all(called.values()), called
    for module in (norm_cuda, cstu_cuda, augment_cuda):
        monkeypatch.setattr(module, "usable", lambda x: False)
    counted = dict(called)
    usual = walk(make(name, net_in_channels_last(), **options), batches())
    assert called == counted
    assert not torch.equal(usual[-1], usual[0])
    for ours, theirs in zip(by_kernels, usual, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-3)


def test_every_layer_is_normalised_by_a_kernel(called: dict[str, int]) -> None:
    """Of which an update needs twice as many, for two networks, and gradients in one."""
    model = make("rotta", net_in_channels_last())
    layers = sum(isinstance(each, nn.BatchNorm2d) for each in net_in_channels_last().modules())
    model(torch.rand(EVERY - 1, 3, 16, 16).contiguous(memory_format=torch.channels_last))
    assert called["normalise"] == layers
    model(torch.rand(1, 3, 16, 16).contiguous(memory_format=torch.channels_last))
    assert (called["normalise"], called["move_and_normalise"]) == (2 * layers, 2 * layers)
    assert called["backward"] == layers


@pytest.mark.parametrize("numbers", ["strided", "negated"])
def test_numbers_that_are_not_plain_memory_are_left_to_pytorch(
    numbers: str, called: dict[str, int]
) -> None:
    from rotta.nn.rbn import RobustBatchNorm

    layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(4)).eval()
    mean = torch.arange(8.0)
    layer.running_mean = mean[::2] if numbers == "strided" else torch._neg_view(mean[:4])
    x = torch.rand(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        given = layer(x)
    assert called["normalise"] == 0
    wanted = (x - layer.running_mean.view(1, -1, 1, 1)) / (1 + layer.eps) ** 0.5
    torch.testing.assert_close(given, wanted)
