"""Convolutions with packed weights, and sums that they make on the way."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.utils._python_dispatch import TorchDispatchMode

from rotta.models import build, load_source
from rotta.nn import fusion, packed_conv
from rotta.nn.packed_conv import PackedConv2d, is_packable, pack_convolutions, usable
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import replace_batch_norms
from rotta.pool import Request, StreamPool

pytestmark = pytest.mark.skipif(not packed_conv._works(), reason="oneDNN is not there")


def fused(net: nn.Module) -> nn.Module:
    """As a pool has it, with the networks of this file among those whose code is known."""
    own = replace_batch_norms(net, RobustBatchNorm.from_batchnorm).eval().requires_grad_(False)
    return fusion.fuse_relus(own, (*fusion.PACKAGES, __name__.split(".")[0]))


def packed_layers(net: nn.Module) -> int:
    return sum(isinstance(module, PackedConv2d) for module in net.modules())


def sums(net: nn.Module) -> int:
    """How many convolutions are told what to add."""
    assert isinstance(net, fx.GraphModule)
    calls = [node for node in net.graph.nodes if node.op == "call_module"]
    return sum(len(node.args) == 2 for node in calls)


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def check_same(net: nn.Module, packed: nn.Module, x: Tensor) -> None:
    before = x.clone()
    with torch.no_grad():
        expected = net(x.contiguous(memory_format=torch.channels_last))
        for layout in (torch.contiguous_format, torch.channels_last):
            own = x.contiguous(memory_format=layout)
            assert torch.allclose(packed(own), expected, rtol=1e-4, atol=1e-5)
            assert torch.equal(own, before)


@pytest.mark.parametrize(
    ("arch", "convolutions", "expected"),
    [("wrn-10-1", 9, 3), ("wrn-40-2", 40, 18), ("resnext-29", 31, 0), ("resnet-18", 20, 0)],
)
def test_networks_predict_the_same(arch: str, convolutions: int, expected: int) -> None:
    net = fused(build(arch, 10))
    names = set(net.state_dict())
    packed = pack_convolutions(net)
    assert (packed_layers(packed), sums(packed)) == (convolutions, expected)
    assert (packed_layers(net), sums(net)) == (0, 0)
    assert set(net.state_dict()) == names
    for size, side in [(5, 32), (1, 32), (2, 40), (64, 32), (3, 33)]:
        check_same(net, packed, images(size, 3, side, side))


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls[str(func)] += 1
        return func(*args, **kwargs or {})


def test_a_pool_predicts_digits_by_packed_convolutions() -> None:
    pool = StreamPool(load_source("digits"), 10)
    x = torch.rand(8, 3, 32, 32)
    requests = [Request(str(i), x[i : i + 1]) for i in range(8)]
    with Counting() as counting:
        pool.predict(requests)
    assert counting.calls["mkldnn._convolution_pointwise_.binary"] == 3
    assert counting.calls["mkldnn._convolution_pointwise.default"] == 6
    assert counting.calls["aten.convolution.default"] == 0


def test_a_pool_predicts_digits_as_before_to_the_bit() -> None:
    draws = torch.Generator().manual_seed(0)
    requests = [Request(str(i), torch.rand(1, 3, 32, 32, generator=draws)) for i in range(64)]
    pool, plain = (StreamPool(load_source("digits"), 10) for _ in range(2))
    plain._engine._network._predicting = plain._engine._network._net
    for one, other in zip(pool.predict(requests), plain.predict(requests), strict=True):
        assert one.logits is not None
        assert other.logits is not None
        assert torch.equal(one.logits, other.logits)


Add = Callable[[Tensor, Tensor], Tensor]


class Residual(nn.Module):
    """A sum of a convolution's result and what the last one made."""

    def __init__(self, add: Add, **how: Any) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.add = nn.Conv2d(4, 4, 3, **{"padding": 1} | how), add

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.add(self.second(F.relu(self.norm(x))), x)


def iadd(a: Tensor, b: Tensor) -> Tensor:
    a += b
    return a


FUSED: dict[str, Add] = {
    "+": lambda a, b: a + b,
    "swapped": lambda a, b: b + a,
    "+=": iadd,
    "into the other": lambda a, b: iadd(b, a),
    "torch.add": lambda a, b: torch.add(b, a),
    "add": lambda a, b: a.add(b),
    "add_": lambda a, b: a.add_(b),
    "and on": lambda a, b: (a + b) * 2 + 1,
}
LEFT: dict[str, Add] = {
    "alpha": lambda a, b: torch.add(a, b, alpha=2),
    "alpha of a method": lambda a, b: a.add_(b, alpha=2),
    "a number": lambda a, b: a + 1,
    "a size": lambda a, b: a + b.shape[0],
    "itself": lambda a, b: a + a,
    "read later": lambda a, b: (a + b) * b,
    "first read later": lambda a, b: (a + b) * a,
    "seen through a view": lambda a, b: [v := b.mT, (a + b) * v.mT][1],
    "a view": lambda a, b: a + b[:, :1],
    "another step between": lambda a, b: [c := b * 2, (a + b) + c][1],
}


@pytest.mark.parametrize("name", FUSED)
def test_sums_are_made_on_the_way(name: str) -> None:
    net = fused(Residual(FUSED[name]))
    packed = pack_convolutions(net)
    assert (packed_layers(packed), sums(packed)) == (2, 1)
    check_same(net, packed, images(5, 3, 8, 8))


@pytest.mark.parametrize("name", LEFT)
def test_other_sums_are_left_as_they_are(name: str) -> None:
    net = fused(Residual(LEFT[name]))
    packed = pack_convolutions(net)
    assert (packed_layers(packed), sums(packed)) == (2, 0)
    check_same(net, packed, images(5, 3, 8, 8))


@pytest.mark.parametrize(
    "how",
    [
        {"bias": False},
        {"groups": 2},
        {"groups": 4},
        {"stride": (2, 1), "padding": (1, 1)},
        {"kernel_size": 1, "padding": 0},
        {"kernel_size": (1, 5), "padding": (0, 2)},
        {"padding": 0, "stride": 8},
    ],
)
def test_convolutions_of_many_kinds_are_packed(how: dict[str, Any]) -> None:
    how = {"padding": 1, "kernel_size": 3} | how
    conv = nn.Conv2d(4, 4, **how)
    assert is_packable(conv)
    packed = PackedConv2d(conv)
    for layout in (torch.channels_last, torch.contiguous_format):
        for x in (images(2, 4, 8, 8), images(1, 4, 9, 7), images(70, 4, 11, 8)):
            with torch.no_grad():
                expected = conv(x)
                summand = torch.randn_like(expected).contiguous(memory_format=layout)
                both = expected + summand
                assert torch.allclose(packed(x), expected, atol=1e-5)
                assert torch.allclose(packed(x, summand), both, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3, 16])
@pytest.mark.parametrize("side", [1, 2, 5])
@pytest.mark.parametrize("outputs", [1, 16])
def test_layouts_that_cannot_be_told_apart(channels: int, side: int, outputs: int) -> None:
    conv = nn.Conv2d(channels, outputs, 3, padding=1)
    x = images(2, channels, side, side)
    with torch.no_grad():
        expected = conv(x)
        summand = torch.randn_like(expected).contiguous(memory_format=torch.channels_last)
        both = expected + summand
        assert torch.allclose(PackedConv2d(conv)(x, summand), both, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 8, 8), (3, 4, 8, 1)])
def test_a_summand_of_another_shape_is_spread(shape: tuple[int, ...]) -> None:
    conv, summand = nn.Conv2d(3, 4, 3, padding=1), images(*shape)
    before = summand.clone()
    with torch.no_grad():
        x = images(3, 3, 8, 8)
        assert torch.allclose(PackedConv2d(conv)(x, summand), conv(x) + before, atol=1e-5)
    assert torch.equal(summand, before)


@pytest.mark.parametrize(
    "how",
    [
        {"padding": "same"},
        {"padding_mode": "reflect"},
        {"dilation": 2, "padding": 2},
        {"dtype": torch.float64},
        {"kernel_size": 1, "padding": 1},
        {"device": "meta"},
    ],
)
def test_others_stay_as_they_are(how: dict[str, Any]) -> None:
    conv = nn.Conv2d(4, 4, **{"kernel_size": 3, "padding": 1} | how)
    assert not is_packable(conv)
    assert not is_packable(nn.ConvTranspose2d(4, 4, 3))


@pytest.mark.parametrize("how", [{"padding": "same"}, {"padding_mode": "reflect"}])
def test_packed_and_plain_layers_go_together(how: dict[str, Any]) -> None:
    net = fused(Residual(FUSED["+"], **how))
    packed = pack_convolutions(net)
    assert (packed_layers(packed), sums(packed)) == (1, 0)
    check_same(net, packed, images(5, 3, 8, 8))


class Shared(nn.Module):
    """One convolution, called three times, also with its own weight read from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = x + self.conv(F.relu(self.norm(x)))
        x = x + self.conv(x)  # what it reads is no place to write to
        return x + F.conv2d(x, self.conv.weight, padding=1)


def test_a_layer_that_is_called_again_and_again() -> None:
    net = fused(Shared())
    packed = pack_convolutions(net)
    assert (packed_layers(packed), sums(packed)) == (1, 1)
    check_same(net, packed, images(4, 3, 8, 8))


class DependsOnImages(Residual):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if y.sum() > 0 else -y


def test_a_network_that_cannot_be_read_stays_as_it_is() -> None:
    for net in (fused(DependsOnImages(FUSED["+"])), fused(Residual(FUSED["+"]).double())):
        assert pack_convolutions(net) is net


def test_they_are_for_predictions_alone() -> None:
    assert not usable()
    with torch.no_grad():
        assert usable()
        with torch.backends.mkldnn.flags(enabled=False):
            assert not usable()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert not usable()
