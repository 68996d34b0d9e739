"""Robust batch normalisation beside the plain formula."""

import pytest
import torch
from torch import Tensor, nn

from rotta.nn.mixed_norm import mixed_norm
from rotta.nn.rbn import RobustBatchNorm


def plain(layer: RobustBatchNorm, x: Tensor) -> Tensor:
    """Eqs. 1 to 5 as they are printed, differentiated by autograd."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape = [1, -1] + [1] * (x.ndim - 2)
    mean = x.mean(axes)
    var = (x - mean.view(shape)).square().mean(axes)
    mean = (1 - layer.alpha) * layer.running_mean + layer.alpha * mean
    var = (1 - layer.alpha) * layer.running_var + layer.alpha * var
    normal = (x - mean.view(shape)) / (var.view(shape) + layer.eps).sqrt()
    return layer.weight.view(shape) * normal + layer.bias.view(shape)


def layer_for(channels: int, alpha: float, seed: int = 0) -> RobustBatchNorm:
    generator = torch.Generator().manual_seed(seed)

    def draw() -> Tensor:
        return torch.randn(channels, generator=generator, dtype=torch.float64)

    return RobustBatchNorm(draw(), draw().exp(), draw(), draw(), alpha=alpha)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (4, 3, 5, 2), (2, 3, 2, 3, 2), (1, 3, 4, 4)])
@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0])
def test_value_and_gradients_are_the_formulas(shape: tuple[int, ...], alpha: float) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 3 + 1
    layer = layer_for(3, alpha)
    upstream = torch.randn(shape, generator=generator, dtype=torch.float64)
    inputs = [x.requires_grad_(), layer.weight, layer.bias]
    expected = plain(layer, x)
    wanted = torch.autograd.grad(expected, inputs, upstream)
    output = layer(x)
    assert torch.allclose(output, expected)
    for ours, theirs in zip(torch.autograd.grad(output, inputs, upstream), wanted, strict=True):
        assert torch.allclose(ours, theirs)


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(6, 5), (1, 3), (8, 7, 5, 5), (16, 32, 16, 16)])
def test_single_precision_is_the_formulas_rounded(shape: tuple[int, ...], relu: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(shape, generator=generator) * 3 + 1
    x = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
    upstream = torch.randn(shape, generator=generator)
    exact, layer = layer_for(shape[1], 0.3), layer_for(shape[1], 0.3).float()
    layer.relu = relu
    inputs = [x.double().requires_grad_(), exact.weight, exact.bias]
    expected = plain(exact, inputs[0])
    predicted = layer.eval()(x)
    output = layer.train()(x.requires_grad_())
    passed = upstream * (output > 0) if relu else upstream
    wanted = torch.autograd.grad(expected, inputs, passed.double())
    found = torch.autograd.grad(output, [x, layer.weight, layer.bias], upstream)
    stored = exact.running_mean, exact.running_var, exact.weight, exact.bias
    by_stored = torch.nn.functional.batch_norm(inputs[0], *stored)
    outputs = (theirs.relu() if relu else theirs for theirs in (expected, by_stored))
    theirs_all, ours_all = [*outputs, *wanted], [output, predicted, *found]
    for ours, theirs in zip(ours_all, theirs_all, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-3)


def test_gradcheck() -> None:
    """The backward differentiates what the forward computes when statistics follow the input."""
    x = torch.randn(4, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    start_mean, start_var = torch.randn(2, dtype=torch.float64), torch.rand(2, dtype=torch.float64)

    def normalise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        var, mean = torch.var_mean(x.detach(), dim=(0, 2, 3), correction=0)
        mixed = torch.stack([start_mean.lerp(mean, 0.3), start_var.lerp(var, 0.3)])
        return mixed_norm(x, weight, bias, mean, mixed, 0.3, 1e-5)

    weight = torch.randn(2, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalise, (x, weight, bias))


def test_updating_stores_the_mixture_and_inferring_does_not() -> None:
    layer = layer_for(3, alpha=0.05)
    before = layer.running_mean.clone(), layer.running_var.clone()
    x = torch.randn(8, 3, 4, 4, dtype=torch.float64) + 5
    layer.eval()(x)
    assert torch.equal(layer.running_mean, before[0])
    layer.train()(x)
    var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
    assert torch.allclose(layer.running_mean, 0.95 * before[0] + 0.05 * mean)
    assert torch.allclose(layer.running_var, 0.95 * before[1] + 0.05 * var)
    assert not layer.running_mean.requires_grad


@pytest.mark.parametrize(
    "bn", [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.BatchNorm3d(4), nn.SyncBatchNorm(4)]
)
def test_in_evaluation_it_is_the_layer_it_came_from(bn: nn.BatchNorm2d) -> None:
    with torch.no_grad():
        for tensor in (bn.running_mean, bn.weight, bn.bias):
            assert tensor is not None
            tensor.normal_()
    dims = {"BatchNorm1d": 1, "BatchNorm2d": 2, "BatchNorm3d": 3, "SyncBatchNorm": 2}
    x = torch.randn(2, 4, *[3] * dims[type(bn).__name__])
    layer = RobustBatchNorm.from_batchnorm(bn.eval())
    expected = torch.nn.functional.batch_norm(
        x, bn.running_mean, bn.running_var, bn.weight, bn.bias, eps=bn.eps
    )
    assert torch.equal(layer(x), expected)
    assert not layer.training


def test_a_layer_without_affine_parameters_gets_them() -> None:
    layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(2, affine=False))
    assert layer.weight.tolist() == [1, 1]
    assert layer.bias.tolist() == [0, 0]


def test_a_layer_without_statistics_is_refused() -> None:
    with pytest.raises(ValueError, match="track_running_stats"):
        RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(2, track_running_stats=False))
