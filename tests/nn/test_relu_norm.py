"""Normalisation layers that do the ReLU that follows them, beside the same layer and a ReLU."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models import build
from rotta.nn.batch_stats import BatchStatNorm, on_batch_statistics
from rotta.nn.iabn import InstanceAwareNorm
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.relu_norm import ReluNorm, before_relu

pytestmark = pytest.mark.usefixtures("each_way")

LAYERS: dict[str, Callable[[nn.BatchNorm2d], ReluNorm]] = {
    "rbn": RobustBatchNorm.from_batchnorm,
    "batch": BatchStatNorm.from_batchnorm,
    "instance": InstanceAwareNorm.from_batchnorm,
}
LARGE, SMALL, ONE_PIXEL = (16, 8, 32, 32), (6, 8, 3, 3), (6, 8, 1, 1)
LAYOUTS = [torch.contiguous_format, torch.channels_last]


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer_for(name: str, channels: int = 8) -> ReluNorm:
    bn = nn.BatchNorm2d(channels)
    with torch.no_grad():
        bn.weight.copy_(draws(channels, seed=1))
        bn.bias.copy_(draws(channels, seed=2))
    return LAYERS[name](bn.train())


def gradients_of(layer: nn.Module, output: Tensor, x: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(output, [x, *layer.parameters()], grad)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [LARGE, SMALL, ONE_PIXEL])
@pytest.mark.parametrize("name", LAYERS)
def test_the_relu_within_is_the_relu_behind(
    name: str, shape: tuple[int, ...], layout: torch.memory_format
) -> None:
    plain = layer_for(name)
    within = copy.deepcopy(plain)
    within.relu = True
    x = draws(*shape).contiguous(memory_format=layout).requires_grad_()
    grad = draws(*shape, seed=3)
    wanted = F.relu(plain(x))
    output = within(x)
    assert torch.equal(output, wanted)
    own, others = gradients_of(within, output, x, grad), gradients_of(plain, wanted, x, grad)
    for ours, theirs in zip(own, others, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_the_relu_within_needs_no_gradients(
    name: str, training: bool, layout: torch.memory_format
) -> None:
    plain = layer_for(name).train(training)
    within = copy.deepcopy(plain)
    within.relu = True
    x = draws(*SMALL).contiguous(memory_format=layout)
    assert torch.equal(within(x), F.relu(plain(x)))
    if isinstance(plain, BatchStatNorm) and isinstance(within, BatchStatNorm):
        plain.passes = within.passes = 2
        assert torch.equal(within(x), F.relu(plain(x)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [LARGE, SMALL])
def test_normalising_by_the_batch_is_the_frameworks(
    shape: tuple[int, ...], layout: torch.memory_format
) -> None:
    layer = layer_for("batch")
    weight, bias = layer.parameters()
    x = (draws(*shape) * 3 + 2).contiguous(memory_format=layout).requires_grad_()
    grad = draws(*shape, seed=3)
    wanted = F.batch_norm(x, None, None, weight, bias, training=True, eps=1e-5)
    with torch.no_grad():
        assert torch.allclose(layer(x), wanted, atol=1e-5)
    output = layer(x)
    assert torch.allclose(output, wanted, atol=1e-5)
    theirs = gradients_of(layer, wanted, x, grad)
    for ours, other in zip(gradients_of(layer, output, x, grad), theirs, strict=True):
        assert torch.allclose(ours, other, rtol=1e-4, atol=1e-3)


def test_gradients_come_in_the_layout_of_the_values() -> None:
    x = draws(*SMALL).contiguous(memory_format=torch.channels_last)
    everywhere = draws(6, 8, 1, 1).expand(SMALL)
    for grad in (everywhere, draws(*SMALL, seed=1)):
        laid_out = before_relu(grad, x)
        assert laid_out.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(laid_out, grad)
        assert torch.equal(before_relu(grad, x, x.relu()), grad * (x > 0))


def test_what_others_need_is_not_overwritten() -> None:
    """Only between a convolution and what follows it, and never where gradients are wanted."""
    net = build("wrn-40-2", 10, seed=0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    by_batch = on_batch_statistics(net)
    norms = [m for m in by_batch.modules() if isinstance(m, BatchStatNorm)]
    assert all(norm.relu for norm in norms)
    assert any(norm.may_overwrite for norm in norms)
    assert not all(norm.may_overwrite for norm in norms)
    x = torch.rand(8, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    kept = x.clone()
    with torch.no_grad():
        predicted = by_batch(x)
        for norm in norms:
            norm.may_overwrite = False
        assert torch.equal(by_batch(x), predicted)
    assert torch.equal(x, kept)


def test_batch_statistics_overwrite_where_they_may(each_way: str) -> None:
    layer = BatchStatNorm.from_batchnorm(nn.BatchNorm2d(8))
    layer.may_overwrite = True
    x = draws(*SMALL).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        place = layer(x).data_ptr()
    assert (place == x.data_ptr()) == (each_way == "our kernels")
