"""Convolutions that are never trained, beside the framework's own."""

from typing import Any

import pytest
import torch
from torch import nn

from rotta.nn.frozen_conv import FrozenConv2d, Made, computed_weights, freeze_convolutions

SHAPES: list[dict[str, Any]] = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3},
    {"kernel_size": 1},
    {"kernel_size": 3, "padding": 1, "groups": 4},
    {"kernel_size": (3, 5), "padding": (0, 4), "groups": 2, "bias": False},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "dilation": 2},
    {"kernel_size": 3, "padding": "same"},
    {"kernel_size": 1, "padding": 2},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_are_the_frameworks(shape: dict[str, Any]) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 8, **shape).double().requires_grad_(False)
    frozen = FrozenConv2d(conv, computed_weights(conv, torch.float64))
    x = torch.randn(2, 4, 9, 7, dtype=torch.float64, requires_grad=True)
    expected, output = conv(x), frozen(x)
    assert torch.allclose(output, expected)
    upstream = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad(expected, x, upstream)
    (given,) = torch.autograd.grad(output, x, upstream)
    assert torch.allclose(given, wanted)
    with torch.no_grad():
        assert torch.allclose(frozen(x), expected)


def test_only_plain_convolutions_with_a_gradient_to_turn_are_turned() -> None:
    turned = [computed_weights(nn.Conv2d(4, 8, **shape), torch.float64)[2] for shape in SHAPES]
    assert [t is not None for t in turned] == [True] * 5 + [False] * 4


def test_networks_that_share_weights_share_the_computed_ones() -> None:
    conv = nn.Conv2d(3, 4, 3)
    made: Made = {}
    nets = [nn.Sequential(conv, nn.Conv2d(4, 4, 3, padding_mode="reflect")) for _ in range(2)]
    before = set(nets[0].state_dict())
    for net in nets:
        freeze_convolutions(net, torch.bfloat16, made)
        assert isinstance(net[0], FrozenConv2d)
        assert type(net[1]) is nn.Conv2d
        assert set(net.state_dict()) == before
        assert net[0](torch.rand(1, 3, 8, 8)).dtype == torch.bfloat16
    assert isinstance(nets[0][0], FrozenConv2d)
    assert isinstance(nets[1][0], FrozenConv2d)
    assert nets[0][0].computed.data_ptr() == nets[1][0].computed.data_ptr()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kernel", [1, 3])
def test_the_layout_stays_the_networks(layout: torch.memory_format, kernel: int) -> None:
    conv = nn.Conv2d(4, 8, kernel, padding=kernel // 2).to(memory_format=layout)  # type: ignore[call-overload]
    frozen = FrozenConv2d(conv.requires_grad_(False), computed_weights(conv, torch.float32))
    x = torch.randn(2, 4, 5, 5).to(memory_format=layout).requires_grad_()
    output = frozen(x)
    assert output.is_contiguous(memory_format=layout)
    (gradient,) = torch.autograd.grad(output, x, torch.randn_like(output))
    assert gradient.is_contiguous(memory_format=layout)


def test_layers_that_share_a_weight_keep_their_own_shape_and_bias() -> None:
    first, second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=2, dilation=2)
    second.weight = first.weight
    net = nn.Sequential(first, second).requires_grad_(False)
    x = torch.randn(1, 3, 8, 8, requires_grad=True)
    expected = net(x)
    (wanted,) = torch.autograd.grad(expected, x, torch.ones_like(expected))
    output = freeze_convolutions(net, None, {})(x)
    assert torch.allclose(output, expected)
    (given,) = torch.autograd.grad(output, x, torch.ones_like(output))
    assert torch.allclose(given, wanted, atol=1e-5)


def test_a_loaded_weight_is_computed_with() -> None:
    made: Made = {}
    net = freeze_convolutions(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1)), torch.float64, made)
    other = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1))
    net.load_state_dict(other.state_dict())
    x = torch.randn(2, 3, 5, 5, requires_grad=True)
    assert torch.allclose(net(x).float(), other(x), atol=1e-5)
    (given,) = torch.autograd.grad(net(x).sum(), x)
    (wanted,) = torch.autograd.grad(other(x).sum(), x)
    assert torch.allclose(given, wanted, atol=1e-5)
