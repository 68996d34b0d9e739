"""The kernels beside the plain formula in float64: those for CPUs, and those for CUDA.

The latter need a GPU, or Triton's interpreter; the former are compiled with the package.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from cuda_kernels import DEVICE, INTERPRETED, ON_A_GPU, for_cuda, on_a_gpu
from rotta.nn import native, norm_cpu, norm_cuda
from rotta.nn.own_kernels import NormKernels

no_bfloat16 = pytest.mark.skipif(INTERPRETED, reason="the interpreter has no bfloat16")
compiled = pytest.mark.skipif(
    native.library() is None, reason="kernels for CPUs were not compiled: needs a C compiler"
)


class Kind(NamedTuple):
    """Which kernels, where, and what they normalise."""

    kernels: NormKernels
    device: torch.device
    dtype: torch.dtype


CUDA = [Kind(norm_cuda, DEVICE, dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16)]
DTYPES = [
    pytest.param(CUDA[0], marks=for_cuda, id="cuda-float32"),
    pytest.param(CUDA[1], marks=for_cuda, id="cuda-float16"),
    pytest.param(CUDA[2], marks=(*for_cuda, no_bfloat16), id="cuda-bfloat16"),
]
CPU = pytest.param(Kind(norm_cpu, torch.device("cpu"), torch.float32), marks=compiled, id="cpu")
ALL = [*DTYPES, CPU]
SINGLE = [DTYPES[0], CPU]
SHAPES = [
    (1, 1),
    (7, 1),
    (70001, 1),
    (1, 3),
    (257, 3),
    (5, 3, 7, 9),
    (1, 16, 1, 1),
    (64, 16, 32, 32),
    (200, 16),
    (33, 24, 5, 5),
    (1, 160),
    (64, 160, 32, 32),
    (3, 100, 37, 41),
    (64, 320, 16, 16),
    (64, 640, 8, 8),
    (70000, 33),
    (129, 640),
    (9, 1024, 7, 7),
    (2, 9000),
    (1, 7, 1, 1),
    (3, 31, 2, 1),
]
if INTERPRETED:  # which takes half a minute for ten million numbers
    SHAPES = [shape for shape in SHAPES if math.prod(shape) < 1_000_000]
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
ALPHA, EPS = 0.3, 1e-5


@dataclass
class Case:
    """What goes into a layer."""

    x: Tensor
    mean: Tensor
    var: Tensor
    weight: Tensor
    bias: Tensor
    upstream: Tensor
    kernels: NormKernels

    @property
    def share(self) -> float:
        return ALPHA * self.x.shape[1] / self.x.numel()


def case(shape: tuple[int, ...], kind: Kind, seed: int = 0) -> Case:
    kernels, device, dtype = kind
    draws = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.randn(size, generator=draws)

    channels = shape[1]
    x = draw(*shape) * 2 + draw(channels).view(1, -1, *[1] * (len(shape) - 2))
    return Case(
        innermost(x.to(device, dtype)),
        draw(channels).to(device),
        draw(channels).exp().to(device),
        draw(channels).to(device),
        draw(channels).to(device),
        innermost(draw(*shape).to(device, dtype)),
        kernels,
    )


def innermost(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x.contiguous()


def moved(given: Case, relu: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output, what is saved, and the new statistics."""
    mean, var = given.mean.clone(), given.var.clone()
    y, saved = given.kernels.move_and_normalise(
        given.x, mean, var, given.weight, given.bias, ALPHA, EPS, relu
    )
    return y, saved, mean, var


def gradients(given: Case, saved: Tensor, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    of_x, of_weight, of_bias = given.kernels.backward(
        given.upstream, given.x, given.weight, given.bias, saved, given.share, relu, True
    )
    assert of_x is not None
    return of_x, of_weight, of_bias


def plain(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Eq. 3 as it is printed."""
    shape = [1, -1] + [1] * (x.ndim - 2)
    normal = (x - mean.view(shape)) / (var.view(shape) + EPS).sqrt()
    return weight.view(shape) * normal + bias.view(shape)


def plainly_moved(x: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """Eqs. 1, 2, 4 and 5, through which autograd may go."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    batch_var, batch_mean = torch.var_mean(x, axes, correction=0)
    return (1 - ALPHA) * mean + ALPHA * batch_mean, (1 - ALPHA) * var + ALPHA * batch_var


def assert_close(ours: Tensor, theirs: Tensor, tolerance: float, size: float = 1.0) -> None:
    """``size`` is what errors are measured by where the value itself is small."""
    torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_with_given_statistics(shape: tuple[int, ...], kind: Kind, relu: bool) -> None:
    given = case(shape, kind)
    statistics = given.mean, given.var, given.weight, given.bias
    before = [tensor.clone() for tensor in (given.x, *statistics)]
    y = given.kernels.normalise(given.x, *statistics, EPS, relu)
    expected = plain(given.x.double(), *(tensor.double() for tensor in statistics))
    assert_close(y, expected.relu() if relu else expected, TOLERANCE[kind.dtype])
    assert (y.dtype, y.stride()) == (kind.dtype, given.x.stride())
    for tensor, old in zip((given.x, *statistics), before, strict=True):
        assert torch.equal(tensor, old)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_with_moved_statistics(shape: tuple[int, ...], kind: Kind, relu: bool) -> None:
    given = case(shape, kind)
    x = given.x.double().requires_grad_()
    weight, bias = (p.double().requires_grad_() for p in (given.weight, given.bias))
    mean, var = plainly_moved(x, given.mean.double(), given.var.double())
    expected = plain(x, mean, var, weight, bias)

    y, saved, new_mean, new_var = moved(given, relu)
    assert_close(y, expected.relu() if relu else expected, TOLERANCE[kind.dtype])
    assert (y.dtype, y.stride()) == (kind.dtype, given.x.stride())
    assert_close(new_mean, mean, 1e-5)
    assert_close(new_var, var, 1e-5)
    batch_mean = given.x.double().transpose(0, 1).flatten(1).mean(1)
    assert_close(saved[:3], torch.stack([batch_mean, mean, (var + EPS).rsqrt()]), 1e-5)

    # where the sign hangs on the last bit, ReLU's gradient follows the sign that was found
    upstream = given.upstream.double() * (y > 0) if relu else given.upstream.double()
    wanted = torch.autograd.grad(expected, (x, weight, bias), upstream)
    of_x, of_weight, of_bias = gradients(given, saved, relu)
    assert (of_x.dtype, of_x.stride()) == (kind.dtype, given.x.stride())
    assert_close(of_x, wanted[0], TOLERANCE[kind.dtype])
    size = (x.numel() / x.shape[1]) ** 0.5  # of a sum whose terms have any sign
    assert_close(of_weight, wanted[1], 2e-5, size)
    assert_close(of_bias, wanted[2], 2e-5, size)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("passes", [1, 2, 32])
@pytest.mark.parametrize("shape", [(1, 3), (7, 1), (5, 3, 7, 9), (16, 33, 8, 8)], ids=str)
def test_passes_by_their_own_statistics(
    shape: tuple[int, ...], passes: int, kind: Kind, relu: bool
) -> None:
    given = [case(shape, kind, seed) for seed in range(passes)]
    weight, bias = given[0].weight, given[0].bias
    x = innermost(torch.cat([each.x + 5 * i for i, each in enumerate(given)]))
    y = kind.kernels.normalise_passes(x, passes, weight, bias, EPS, relu)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    expected = []
    for one in x.double().chunk(passes):
        var, mean = torch.var_mean(one, axes, correction=0)
        expected.append(plain(one, mean, var, weight.double(), bias.double()))
    wanted = torch.cat(expected)
    # a mean far from 0 leaves fewer digits of what is around it; of scale and shift fewer still
    size = 50.0 if kind.kernels is norm_cpu else 5.0
    assert_close(y, wanted.relu() if relu else wanted, max(TOLERANCE[kind.dtype], 1e-4), size)
    assert (y.dtype, y.stride()) == (kind.dtype, x.stride())


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (70000, 33), (64, 160, 8, 8)], ids=str)
def test_parameters_alone(shape: tuple[int, ...], relu: bool, kind: Kind) -> None:
    given = case(shape, kind)
    _, saved, _, _ = moved(given, relu)
    _, *wanted = gradients(given, saved, relu)
    of_x, *found = given.kernels.backward(
        given.upstream, given.x, given.weight, given.bias, saved, given.share, relu, False
    )
    assert of_x is None
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("layout", ["contiguous", "gaps", "expanded", "float64"])
def test_gradients_come_in_any_layout_and_dtype(layout: str, kind: Kind) -> None:
    given = case((6, 20, 5, 5), kind)
    _, saved, _, _ = moved(given, True)
    if layout == "expanded":
        given.upstream = given.upstream[:1, :, :1, :1].expand_as(given.x).clone()
    wanted = gradients(given, saved, True)
    if layout == "contiguous":
        given.upstream = given.upstream.contiguous()
    elif layout == "gaps":
        given.upstream = given.upstream.repeat(1, 1, 1, 2)[..., :5]
    elif layout == "expanded":
        given.upstream = given.upstream[:1, :, :1, :1].expand_as(given.x)
    else:
        given.upstream = given.upstream.double()
    for ours, theirs in zip(gradients(given, saved, True), wanted, strict=True):
        assert torch.equal(ours, theirs)
        assert ours.dtype == torch.float32


@pytest.mark.parametrize("kind", SINGLE)
def test_relu_is_undone_where_it_acted(kind: Kind) -> None:
    """A gradient that arrives only where ReLU gave nothing must vanish, to the last bit."""
    given = case((64, 160, 16, 16) if ON_A_GPU else (64, 96, 8, 8), kind)
    y, saved, _, _ = moved(given, True)
    given.upstream = (y == 0).float()
    assert 0.1 < given.upstream.mean().item() < 0.9
    for gradient in gradients(given, saved, True):
        assert torch.count_nonzero(gradient) == 0


@pytest.mark.parametrize("kind", SINGLE)
def test_relu_lets_nothing_through_at_zero(kind: Kind) -> None:
    """As PyTorch has it; a layer without γ and β gives nothing else."""
    given = case((64, 20, 4, 4), kind)
    given.weight.zero_()
    given.bias.zero_()
    y, saved, _, _ = moved(given, True)
    assert torch.count_nonzero(y) == 0
    for gradient in gradients(given, saved, True):
        assert torch.count_nonzero(gradient) == 0


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shape", [(7, 3), (5, 3, 7, 9), (16, 160, 8, 8)], ids=str)
def test_what_may_be_overwritten_is(shape: tuple[int, ...], kind: Kind, relu: bool) -> None:
    given = case(shape, kind)
    statistics = given.mean, given.var, given.weight, given.bias
    fresh = given.kernels.normalise(given.x, *statistics, EPS, relu)
    version = given.x._version
    again = given.kernels.normalise(given.x, *statistics, EPS, relu, given.x)
    assert again.data_ptr() == given.x.data_ptr()
    assert torch.equal(given.x, fresh)
    assert kind.kernels is norm_cuda or given.x._version > version, "or autograd would not notice"


@pytest.mark.parametrize("kind", SINGLE)
def test_what_is_not_a_number_stays_visible(kind: Kind) -> None:
    given = case((40, 16), kind)
    given.x[3, 5] = float("nan")
    y = given.kernels.normalise(given.x, given.mean, given.var, given.weight, given.bias, EPS, True)
    assert torch.isnan(y).nonzero().tolist() == [[3, 5]]
    _, _, mean, var = moved(given, True)
    assert torch.isnan(mean).nonzero().tolist() == [[5]]
    assert torch.isnan(var).nonzero().tolist() == [[5]]


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("shape", [(70000, 16), (300, 3), (64, 160, 16, 16)], ids=str)
def test_a_small_variance_around_a_large_mean(shape: tuple[int, ...], kind: Kind) -> None:
    """The mean of squares less the square of the mean would be off by a hundred times."""
    given = case(shape, kind)
    given.x = 1000 + given.x * 0.01
    given.mean.fill_(1000)
    given.var.fill_(0)
    _, saved, mean, var = moved(given, False)
    wanted_mean, wanted_var = plainly_moved(
        given.x.double(), given.mean.double(), given.var.double()
    )
    torch.testing.assert_close(var.double(), wanted_var, rtol=1e-3, atol=0)
    torch.testing.assert_close(mean.double(), wanted_mean, rtol=3e-7, atol=0)
    assert not torch.equal(saved[0], mean)


@pytest.mark.parametrize("kind", ALL)
def test_equal_inputs_give_equal_bits(kind: Kind) -> None:
    given = case((64, 160, 16, 16) if ON_A_GPU else (64, 96, 8, 8), kind)
    first, second = moved(given, True), moved(given, True)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1][:3], second[1][:3])
    assert torch.equal(first[2], second[2])
    assert torch.equal(first[3], second[3])
    for ours, theirs in zip(
        gradients(given, first[1], True), gradients(given, second[1], True), strict=True
    ):
        assert torch.equal(ours, theirs)


@on_a_gpu
def test_every_program_sees_the_statistics_from_before() -> None:
    """Whoever starts late must not move what the first one has moved already."""
    given = case((64, 32, 64, 64), CUDA[0])
    given.mean.fill_(1e4)
    y, saved, _, _ = moved(given, False)
    shape = [1, -1, 1, 1]
    by_saved = (given.x - saved[1].view(shape)) * saved[2].view(shape)
    by_saved = by_saved * given.weight.view(shape) + given.bias.view(shape)
    for _ in range(50):
        again, _, _, _ = moved(given, False)
        assert torch.equal(again, y)
    torch.testing.assert_close(y, by_saved, rtol=1e-5, atol=1e-3)


@on_a_gpu
@pytest.mark.parametrize("kind", DTYPES)
def test_a_replayed_graph_is_the_direct_call(kind: Kind) -> None:
    given, later = case((64, 160, 8, 8), kind), case((64, 160, 8, 8), kind, seed=1)
    moved(given, True)  # compiles
    _, saved, _, _ = moved(given, True)
    gradients(given, saved, True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, saved, mean, var = moved(given, True)
        captured = y, mean, var, *gradients(given, saved, True)
    for target, source in zip(vars(given).values(), vars(later).values(), strict=True):
        if isinstance(target, Tensor):
            target.copy_(source)
    graph.replay()
    y, saved, mean, var = moved(later, True)
    for ours, theirs in zip(captured, (y, mean, var, *gradients(later, saved, True)), strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture
def _no_waiting_for_the_gpu() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@on_a_gpu
@pytest.mark.usefixtures("_no_waiting_for_the_gpu")
def test_nothing_waits_for_the_gpu() -> None:
    given = case((64, 160, 8, 8), CUDA[0])
    _, saved, _, _ = moved(given, True)
    gradients(given, saved, True)
    torch.cuda.set_sync_debug_mode("error")
    assert norm_cuda.usable(given.x)
    _, saved, _, _ = moved(given, True)
    gradients(given, saved, True)


@on_a_gpu
def test_what_the_kernels_can_serve() -> None:
    x = torch.zeros(4, 8, 3, 3, device=DEVICE)
    last = x.contiguous(memory_format=torch.channels_last)
    assert norm_cuda.usable(last)
    assert norm_cuda.usable(last.half())
    assert norm_cuda.usable(last.bfloat16())
    assert norm_cuda.usable(x[:, :, 0, 0].contiguous())
    assert not norm_cuda.usable(x)
    assert not norm_cuda.usable(last.double())
    assert not norm_cuda.usable(last[:0])
    assert not norm_cuda.usable(last[:, :4])
    assert not norm_cuda.usable(x[:, :, 0, 0])
    assert not norm_cuda.usable(x[..., 0])
    assert not norm_cuda.usable(last.cpu())
