"""Instance-aware normalisation beside its formulas, one instance and channel at a time."""

import math

import pytest
import torch
from torch import Tensor, nn

from rotta.nn.iabn import InstanceAwareNorm


def plain_shrink(distance: float, chance: float) -> float:
    if distance > chance:
        return distance - chance
    return distance + chance if distance < -chance else 0.0


def plain(layer: InstanceAwareNorm, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Normalise each instance of each channel around the batch's statistics, (C,)."""
    result = torch.empty_like(x)
    for c in range(x.shape[1]):
        spread = var[c].item() + layer.eps
        for b in range(len(x)):
            values = x[b, c].flatten().tolist()
            m, v = mean[c].item(), var[c].item()
            if len(values) > 1:
                n = len(values)
                own_mean = sum(values) / n
                own_var = sum((value - own_mean) ** 2 for value in values) / (n - 1)
                m += plain_shrink(own_mean - m, layer.k * math.sqrt(spread / n))
                v += plain_shrink(own_var - v, layer.k * spread * math.sqrt(2 / (n - 1)))
            normal = (x[b, c] - m) / math.sqrt(max(v, 0.0) + layer.eps)
            result[b, c] = layer.weight[c] * normal + layer.bias[c]
    return result


def draws(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer_for(channels: int = 3, k: float = 4.0) -> InstanceAwareNorm:
    given = draws(channels, seed=1), draws(channels, seed=2).exp()
    return InstanceAwareNorm(*given, draws(channels, seed=3), draws(channels, seed=4), k=k)


def unlike_instances(*shape: int) -> Tensor:
    """Each instance has a level and a contrast of its own: most are shrunk, some are not."""
    x = draws(*shape, seed=5)
    per_instance = (shape[0], shape[1], *[1] * (len(shape) - 2))
    return x * draws(*per_instance, seed=6).exp() + 2 * draws(*per_instance, seed=7)


SHAPES = [(6, 3, 5, 4), (6, 3, 2, 1), (1, 3, 8, 8), (5, 3, 7), (6, 3, 1, 1), (6, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [0.0, 1.0, 4.0])
def test_predicting_it_is_the_formulas_around_the_running_statistics(
    shape: tuple[int, ...], k: float
) -> None:
    layer = layer_for(k=k).eval()
    before = layer.running_mean.clone(), layer.running_var.clone()
    x = unlike_instances(*shape)
    assert torch.allclose(layer(x), plain(layer, x, *before))
    assert torch.equal(layer.running_mean, before[0])
    assert torch.equal(layer.running_var, before[1])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [0.0, 1.0, 4.0])
def test_updating_it_is_the_formulas_around_the_batchs_statistics(
    shape: tuple[int, ...], k: float
) -> None:
    layer = layer_for(k=k).train()
    before = layer.running_mean.clone(), layer.running_var.clone()
    x = unlike_instances(*shape)
    by_channel = x.movedim(1, 0).flatten(1)
    mean, var = by_channel.mean(1), by_channel.var(1, correction=1)
    assert torch.allclose(layer(x), plain(layer, x, mean, var))
    assert torch.allclose(layer.running_mean, 0.99 * before[0] + 0.01 * mean)
    assert torch.allclose(layer.running_var, 0.99 * before[1] + 0.01 * var)
    assert not layer.running_mean.requires_grad


def test_both_sides_of_the_shrinkage_are_met() -> None:
    """The formulas above would say little if all instances fell on one side."""
    layer, x = layer_for().eval(), unlike_instances(6, 3, 5, 4)
    corrected = ~torch.isclose(layer(x), _as_batch_norm(layer, x)).flatten(2).all(2)
    assert corrected.any()
    assert not corrected.all()


def _as_batch_norm(layer: InstanceAwareNorm, x: Tensor) -> Tensor:
    stored = layer.running_mean, layer.running_var, layer.weight, layer.bias
    return torch.nn.functional.batch_norm(x, *stored, eps=layer.eps)


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 1, 1)])
def test_a_single_value_is_normalised_by_the_running_statistics(shape: tuple[int, ...]) -> None:
    """One value has no variance: it moves nothing."""
    layer, x = layer_for().train(), draws(*shape)
    expected = _as_batch_norm(layer, x)
    before = layer.running_var.clone()
    assert torch.allclose(layer(x), expected)
    assert torch.equal(layer.running_var, before)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(3, 3, 2, 2), (4, 3, 5), (4, 3), (1, 3, 3, 2)])
@pytest.mark.parametrize("k", [0.0, 0.7, 4.0])
def test_gradients_are_those_of_small_differences(
    shape: tuple[int, ...], k: float, training: bool
) -> None:
    layer, x = layer_for(k=k).train(training), unlike_instances(*shape).requires_grad_()

    def output(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        result: Tensor = torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))
        return result

    assert torch.autograd.gradcheck(output, (x, layer.weight, layer.bias))


def by_tensors(layer: InstanceAwareNorm, x: Tensor) -> Tensor:
    """Training mode by soft shrinkage of whole tensors, whose gradients autograd knows."""
    n = x[0, 0].numel()
    own_var, own_mean = torch.var_mean(x, dim=(2, 3), correction=1, keepdim=True)
    var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=1, keepdim=True)
    spread = var + layer.eps
    mean_bound, var_bound = layer.k * (spread / n).sqrt(), layer.k * spread * (2 / (n - 1)) ** 0.5
    mean = mean + _shrunk(own_mean - mean, mean_bound)
    var = var + _shrunk(own_var - var, var_bound)
    normal = (x - mean) / (var + layer.eps).sqrt()
    return normal * layer.weight.view(1, -1, 1, 1) + layer.bias.view(1, -1, 1, 1)


def _shrunk(x: Tensor, by: Tensor) -> Tensor:
    return (x - by).relu() - (-x - by).relu()


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("input_learns", [True, False])
def test_gradients_are_those_of_soft_shrinkage(
    layout: torch.memory_format, input_learns: bool
) -> None:
    layer, upstream = layer_for().train(), draws(6, 3, 5, 4, seed=8)
    x = unlike_instances(6, 3, 5, 4).contiguous(memory_format=layout).requires_grad_(input_learns)
    wanted = [layer.weight, layer.bias, *([x] if input_learns else [])]
    ours, theirs = (
        torch.autograd.grad((output * upstream).sum(), wanted)
        for output in (layer(x), by_tensors(layer, x))
    )
    assert all(torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(6, 5, 5, 4), (3, 20, 9, 9), (1, 16, 4, 4)])
def test_single_precision_is_double_precision_rounded(
    shape: tuple[int, ...], training: bool, relu: bool
) -> None:
    """The one goes by kernels for CPUs, where there are any, the other never does."""
    x, upstream = unlike_instances(*shape), draws(*shape, seed=8)
    results = []
    for dtype in (torch.float32, torch.float64):
        layer = layer_for(shape[1]).to(dtype).train(training)
        layer.relu = relu
        given = x.to(dtype, memory_format=torch.channels_last, copy=True).requires_grad_()
        output = layer(given)
        wanted = [given, layer.weight, layer.bias]
        gradients = torch.autograd.grad(output, wanted, upstream.to(dtype))
        results.append([output, layer.running_mean, layer.running_var, *gradients])
    for single, double in zip(*results, strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-3)


def test_a_layer_that_is_used_twice_learns_from_both() -> None:
    """The running statistics have moved on before the first use is taken back."""
    layer, x = layer_for().train(), unlike_instances(6, 3, 5, 4)
    ours = torch.autograd.grad(layer(layer(x)).square().mean(), layer.weight)[0]
    twice = by_tensors(layer, by_tensors(layer, x))
    assert torch.allclose(ours, torch.autograd.grad(twice.square().mean(), layer.weight)[0])


def test_the_layout_stays_and_the_result_with_it() -> None:
    layer, x = layer_for().eval(), unlike_instances(6, 3, 5, 4)
    last = layer(x.contiguous(memory_format=torch.channels_last))
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(last, layer(x))


@pytest.mark.parametrize("training", [True, False])
def test_flat_instances_stay_finite(training: bool) -> None:
    layer, x = layer_for().train(training), torch.full((2, 3, 4, 4), 0.5, dtype=torch.float64)
    x.requires_grad_()
    output = layer(x)
    output.sum().backward()
    assert x.grad is not None
    assert output.isfinite().all()
    assert x.grad.isfinite().all()


def test_a_layer_is_taken_over_with_what_it_has() -> None:
    bn = nn.BatchNorm2d(3, affine=False, eps=1e-3).eval()
    layer = InstanceAwareNorm.from_batchnorm(bn, k=2.0, momentum=0.5)
    assert layer.weight.tolist() == [1, 1, 1]
    assert layer.bias.tolist() == [0, 0, 0]
    assert (layer.eps, layer.k, layer.momentum, layer.training) == (1e-3, 2.0, 0.5, False)
    with pytest.raises(ValueError, match="track_running_stats"):
        InstanceAwareNorm.from_batchnorm(nn.BatchNorm2d(2, track_running_stats=False))
