"""What the kernels for CPUs promise beside their values: bits, bounds, and who may use them.

Their values are held beside formulas in test_norm_kernels.py and test_affine.py.
"""

import copy
import ctypes.util
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from sysconfig import get_config_var
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from rotta.nn import native, norm_cpu
from rotta.nn.batch_stats import BatchStatNorm
from rotta.nn.iabn import InstanceAwareNorm
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.relu_norm import ReluNorm

pytestmark = pytest.mark.skipif(
    native.library() is None, reason="kernels for CPUs were not compiled: needs a C compiler"
)

FOLDER = Path(native.__file__).parent
LIBRARIES = sorted(FOLDER.glob(f"kernels*{get_config_var('EXT_SUFFIX')}"))
LAYERS: list[type[ReluNorm]] = [RobustBatchNorm, BatchStatNorm, InstanceAwareNorm]
every_layer = pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
SHAPES = [(1, 1), (5, 3), (64, 16, 32, 32), (3, 37, 5, 7), (2, 5000), (70001, 2)]


def innermost(*shape: int, seed: int = 0) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def made(kind: type[ReluNorm], channels: int) -> ReluNorm:
    layer: ReluNorm = kind.from_batchnorm(nn.BatchNorm2d(channels))  # type: ignore[attr-defined]
    return layer


def all_results(*shape: int) -> list[Tensor]:
    """Of every kernel."""
    x, grad = innermost(*shape), innermost(*shape, seed=1)
    c = shape[1]
    mean, weight, bias = (innermost(1, c, seed=seed).flatten() for seed in (2, 3, 4))
    var = innermost(1, c, seed=5).exp().flatten()
    y, saved = norm_cpu.move_and_normalise(x, mean, var, weight, bias, 0.3, 1e-5, True)
    of_x, *others = norm_cpu.backward(grad, x, weight, bias, saved, 0.3 * c / x.numel(), True, True)
    normal = norm_cpu.normalise(x, mean, var, weight, bias, 1e-5, True)
    assert of_x is not None
    results = [y, saved, mean, var, of_x, *others, normal, *norm_cpu.channel_moments(x)]
    scale, shift, slope, offset = (innermost(*shape[:2], seed=seed) for seed in (6, 7, 8, 9))
    results += norm_cpu.instance_moments(x)
    results += norm_cpu.gradient_sums(grad, x, scale, shift, slope, relu=True)
    results.append(norm_cpu.scaled_and_shifted(x, scale, shift, True))
    results.append(norm_cpu.gradient(grad, x, scale, shift, slope, offset, relu=True))
    return results


def checksum(results: list[Tensor]) -> str:
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in results)).hexdigest()


def checksums() -> list[str]:
    return [checksum(all_results(*shape)) for shape in SHAPES]


def test_results_do_not_depend_on_how_many_threads_there_are() -> None:
    """In a process of its own: OpenMP's threads would stay, and later tests fork."""
    script = "import torch, test_norm_cpu as t\n"
    script += "for n in (1, 2, 3): torch.set_num_threads(n); print(*t.checksums())"
    here = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "PYTHONPATH": here}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == [" ".join(checksums())] * 3


@pytest.mark.parametrize("file", LIBRARIES, ids=lambda file: file.name.split(".")[0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_library_computes_the_same(
    file: Path, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that a better processor would never take."""
    can_run = native.runnable(torch.backends.cpu.get_cpu_capability())
    if file.name not in can_run:
        pytest.skip("not on this processor")
    expected = all_results(*shape)
    only = native.opened(file)
    assert only is not None
    monkeypatch.setattr(native, "library", lambda: only)
    for ours, theirs in zip(all_results(*shape), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 37, 5, 7), (4, 16, 8, 8)], ids=str)
def test_nothing_is_written_outside(shape: tuple[int, ...]) -> None:
    """The output lies in the middle of a larger block, whose rest must stay as it was."""
    x, c = innermost(*shape), shape[1]
    size, margin = x.numel(), 64
    block = torch.full((size + 2 * margin,), 7.0)
    out = block[margin : margin + size].as_strided(x.shape, x.stride(), margin)
    numbers = torch.zeros(c), torch.ones(c), torch.ones(c), torch.zeros(c)
    norm_cpu.normalise(x, *numbers, 0.0, False, out)
    assert torch.equal(out, x)
    assert (block[:margin] == 7).all()
    assert (block[margin + size :] == 7).all()


def test_what_the_kernels_can_serve() -> None:
    x = torch.zeros(4, 8, 3, 3)
    last = x.contiguous(memory_format=torch.channels_last)
    assert norm_cpu.usable(last)
    assert norm_cpu.usable(nn.Parameter(last))
    assert norm_cpu.usable(last[1:])
    assert norm_cpu.usable(x[:, :, 0, 0].contiguous())
    assert not norm_cpu.usable(x)
    assert not norm_cpu.usable(last.double())
    assert not norm_cpu.usable(last.bfloat16())
    assert not norm_cpu.usable(last[:0])
    assert not norm_cpu.usable(last[:, :4])
    assert not norm_cpu.usable(x[..., 0])
    assert not norm_cpu.usable(last.to("meta"))
    assert not norm_cpu.usable(last.to_sparse())
    assert not norm_cpu.usable(x[:, :, 0, 0].contiguous().to_mkldnn())
    assert not norm_cpu.usable(torch._neg_view(last))

    class Mine(Tensor):
        pass

    assert not norm_cpu.usable(last.as_subclass(Mine))


def test_numbers_that_do_not_fit_are_refused_before_anything_is_read() -> None:
    x, three = innermost(4, 3, 5, 5), torch.ones(3)
    with pytest.raises(ValueError, match=r"expected one float32 after the other, \(3,\)"):
        norm_cpu.scaled_and_shifted(x, three, torch.ones(2), False)
    with pytest.raises(ValueError, match="float64"):
        norm_cpu.normalise(x, three, three.double(), three, three, 1e-5, False)
    with pytest.raises(ValueError, match=r"\(4, 3\)"):
        norm_cpu.scaled_and_shifted(x, torch.ones(3, 3), torch.ones(4, 3), False)
    with pytest.raises(ValueError, match="one float32 after the other"):
        norm_cpu.scaled_and_shifted(x, torch.ones(3, 2)[:, 0], three, False)
    elsewhere = three.to("meta")
    with pytest.raises(ValueError, match="bring both to one device"):
        norm_cpu.normalise(x, elsewhere, elsewhere, elsewhere, elsewhere, 1e-5, False)


class Wrapped(Tensor):
    """Numbers that are elsewhere: the tensor itself has no memory."""

    within: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Wrapped":
        made: Wrapped = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype
        )
        made.within = inner
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        inner_args, inner_kwargs = tree_map_only(cls, lambda t: t.within, (args, kwargs or {}))
        return func(*inner_args, **inner_kwargs)


def negated(numbers: Tensor) -> Tensor:
    return torch._neg_view(numbers)


def with_gaps(numbers: Tensor) -> Tensor:
    return torch.stack([numbers, torch.zeros_like(numbers)], dim=1)[:, 0]


@every_layer
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["weight", "bias", "running_mean"])
@pytest.mark.parametrize("kind_of_numbers", [Wrapped, negated, with_gaps])
def test_numbers_that_do_not_lie_plainly_in_memory_count_as_ever(
    kind: type[ReluNorm],
    training: bool,
    name: str,
    kind_of_numbers: Callable[[Tensor], Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not hasattr(made(kind, 3), name):
        pytest.skip("it has none")
    if kind_of_numbers is not with_gaps and name == "running_mean" and training:
        pytest.skip("PyTorch cannot move it either")

    def output() -> Tensor:
        layer = made(kind, 3).train(training)
        numbers = kind_of_numbers(torch.tensor([0.5, 1.0, 2.0]))
        layer._parameters.pop(name, None)
        layer._buffers.pop(name, None)
        setattr(layer, name, numbers)
        with torch.no_grad():
            result: Tensor = layer(innermost(4, 3, 5, 5))
        return result

    ours = output()
    monkeypatch.setattr(native, "library", lambda: None)
    torch.testing.assert_close(ours, output())


@every_layer
def test_a_gradient_without_memory_is_refused(kind: type[ReluNorm]) -> None:
    x = innermost(4, 3, 5, 5).requires_grad_()
    y = made(kind, 3).train()(x)
    with pytest.raises(ValueError, match="a Wrapped came to the backward pass"):
        torch.autograd.grad(y, x, Wrapped(torch.ones_like(y)))


def test_what_is_overwritten_is_known_to_have_changed() -> None:
    """Or a backward pass that needs what was there would go on with something else."""
    root = innermost(4, 3, 5, 5).requires_grad_()
    x = root * 1
    loss = x.square().sum()
    with torch.no_grad():
        ones = torch.ones(3)
        norm_cpu.normalise(x, ones, ones, ones, ones, 1e-5, False, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, root)


@every_layer
def test_what_was_kept_may_come_back_in_another_precision(kind: type[ReluNorm]) -> None:
    layer, x = made(kind, 3).train(), innermost(4, 3, 5, 5).requires_grad_()
    upstream = innermost(4, 3, 5, 5, seed=1)
    (expected,) = torch.autograd.grad(copy.deepcopy(layer)(x), x, upstream)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.detach().half() if t.ndim == 4 and t.shape[2] > 1 else t.detach(), _same
    ):
        output = layer(x)
    (ours,) = torch.autograd.grad(output, x, upstream)
    torch.testing.assert_close(ours, expected, rtol=1e-2, atol=1e-2)


def test_a_layer_that_is_refused_has_not_moved() -> None:
    layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3)).train()
    layer.bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="float64"):
        layer(innermost(4, 3, 5, 5))
    assert layer.running_mean.tolist() == [0, 0, 0]


def test_a_transform_of_functions_goes_by_pytorchs_kernels() -> None:
    """What torch.func maps over has no memory of its own that a kernel could read."""
    bn = nn.BatchNorm2d(3).eval()
    layer = RobustBatchNorm.from_batchnorm(bn)
    x = innermost(5, 2, 3, 4, 4)
    with torch.no_grad():
        mapped = torch.func.vmap(layer)(x)
        assert torch.allclose(mapped, torch.stack([bn(each) for each in x]), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_recorded_layer_computes_what_the_layer_does() -> None:
    """A recording knows PyTorch's operations alone."""
    layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3)).eval()
    x, other = innermost(4, 3, 5, 5), innermost(4, 3, 5, 5, seed=1)
    with torch.no_grad():
        recorded = torch.jit.trace(layer, x)  # type: ignore[no-untyped-call]
        torch.testing.assert_close(recorded(other), layer(other))


@every_layer
def test_second_derivatives_are_refused_rather_than_wrong(kind: type[ReluNorm]) -> None:
    layer = made(kind, 3).train()
    x = innermost(4, 3, 5, 5).requires_grad_()
    (first,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()  # type: ignore[no-untyped-call]


@every_layer
@pytest.mark.parametrize("training", [False, True])
def test_compilers_and_recorders_see_pytorchs_operations(
    kind: type[ReluNorm], training: bool
) -> None:
    layer, x = made(kind, 3).train(training), innermost(4, 3, 5, 5)
    with torch.no_grad():
        expected = copy.deepcopy(layer)(x)
        compiled = torch.compile(copy.deepcopy(layer), fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), expected)
        other = innermost(4, 3, 5, 5, seed=1)
        for before_dispatch in (False, True):
            record = make_fx(copy.deepcopy(layer).eval(), pre_dispatch=before_dispatch)
            torch.testing.assert_close(record(x)(other), copy.deepcopy(layer).eval()(other))


class Listening(TorchFunctionMode):
    heard: list[str]

    def __torch_function__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("beside", [nullcontext, lambda: torch.device("cpu")])
def test_who_follows_functions_sees_pytorchs(
    beside: Callable[[], AbstractContextManager[object]],
) -> None:
    layer, x = made(RobustBatchNorm, 3).eval(), innermost(4, 3, 5, 5)
    with torch.no_grad(), beside(), Listening() as mode:
        mode.heard = []
        layer(x)
    assert "batch_norm" in mode.heard


def test_a_default_device_is_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, calls = made(RobustBatchNorm, 3).eval(), innermost(4, 3, 5, 5), []
    monkeypatch.setattr(norm_cpu, "_call", lambda name, *_: calls.append(name))
    with torch.no_grad(), torch.device("cpu"):
        layer(x)
    assert calls == ["normalise"]


def test_derivatives_forwards_are_not_lost() -> None:
    layer, x = made(RobustBatchNorm, 3).eval(), innermost(4, 3, 5, 5)
    with torch.no_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))  # type: ignore[no-untyped-call]
        tangent = forward_ad.unpack_dual(layer(dual)).tangent  # type: ignore[no-untyped-call]
        assert tangent is not None


@every_layer
def test_what_was_kept_may_come_back_in_another_layout(kind: type[ReluNorm]) -> None:
    """Hooks that move what is kept for the backward pass need not mind how it lies."""
    layer, x = made(kind, 5).train(), innermost(4, 5, 6, 6).requires_grad_()
    layer.relu = True
    wanted, upstream = [x, *layer.parameters()], innermost(4, 5, 6, 6, seed=1)
    twin = copy.deepcopy(layer)
    expected = torch.autograd.grad(twin(x), [x, *twin.parameters()], upstream)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone().contiguous(), _same):
        output = layer(x)
    for ours, theirs in zip(torch.autograd.grad(output, wanted, upstream), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def _same(x: Tensor) -> Tensor:
    return x


def test_views_that_negate_are_read_as_what_they_mean() -> None:
    g = innermost(2, 3, 4, 4)
    assert torch.equal(norm_cpu.laid_out(torch._neg_view(g)), -g)


@every_layer
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_layers_go_by_the_kernels(
    kind: type[ReluNorm], training: bool, grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is RobustBatchNorm and grad and not training:
        pytest.skip("nobody asks for that: PyTorch's serve")
    calls: list[str] = []
    really = norm_cpu._call

    def noted(name: str, *arguments: object) -> None:
        calls.append(name)
        really(name, *arguments)

    monkeypatch.setattr(norm_cpu, "_call", noted)
    layer, x = made(kind, 3).train(training), innermost(4, 3, 5, 5).requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        output = layer(x)
    assert calls
    if grad:
        output.sum().backward()
        assert "gradient" in calls


@every_layer
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("level", [1e3, 47660.636957518116, 1e7])
def test_flat_images_have_no_variance(kind: type[ReluNorm], level: float, grad: bool) -> None:
    """Rounding must not make it negative: its root would be no number."""
    x = torch.full((2, 3, 224, 224), level).contiguous(memory_format=torch.channels_last)
    for var, mean in (norm_cpu.channel_moments(x), norm_cpu.instance_moments(x)):
        assert (var >= 0).all()
        assert (var <= (level * 1e-7) ** 2).all()
        torch.testing.assert_close(mean, torch.full_like(mean, level), rtol=1e-7, atol=0)
    with torch.set_grad_enabled(grad):
        assert made(kind, 3).train()(x).isfinite().all()


def test_sums_over_large_images_keep_their_digits() -> None:
    x = torch.rand(1, 1, 2048, 2048, generator=torch.Generator().manual_seed(0)) + 100
    var, mean = norm_cpu.instance_moments(x)
    expected_var, expected_mean = torch.var_mean(x.double(), correction=0)
    torch.testing.assert_close(mean.double().flatten()[0], expected_mean, rtol=1e-7, atol=0)
    torch.testing.assert_close(var.double().flatten()[0], expected_var, rtol=1e-5, atol=0)
    ones, zeros, tenths = torch.ones(1, 1), torch.zeros(1, 1), torch.full_like(x, 0.1)
    sums = norm_cpu.gradient_sums(tenths, x, ones, zeros, mean, relu=False)
    torch.testing.assert_close(sums[1].item(), tenths.double().sum().item(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("grad", [False, True])
def test_a_value_beyond_all_bounds_is_a_matter_of_its_own_image(grad: bool) -> None:
    """The variance it makes is infinite, which leaves the others at β."""
    x = innermost(4, 3, 5, 5)
    x[0, 0, 0, 0] = 1e30
    with torch.set_grad_enabled(grad):
        output = made(BatchStatNorm, 3)(x)
    assert output[1:].isfinite().all()


def fresh_level(**environment: str) -> str:
    """Which kernels a new process has."""
    done = subprocess.run(
        [sys.executable, "-c", "from rotta.nn import native; print(native.level())"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_they_can_be_switched_off() -> None:
    assert fresh_level(ROTTA_NATIVE="0") == "none"
    assert fresh_level() == native.level() != "none"


def test_of_several_libraries_the_best_that_runs_is_taken() -> None:
    suffix = get_config_var("EXT_SUFFIX")
    assert native.runnable("AVX512") == [f"kernels{v}{suffix}" for v in ("_v4", "_v3", "")]
    assert native.runnable("AVX2") == [f"kernels{v}{suffix}" for v in ("_v3", "")]
    assert native.runnable("DEFAULT") == native.runnable("SVE256") == [f"kernels{suffix}"]


def test_files_that_are_no_such_library_are_passed_over(tmp_path: Path) -> None:
    assert native.opened(tmp_path / "missing.so") is None
    for content in (b"", b"\x7fELF and no more", b"of another system"):
        (tmp_path / "damaged.so").write_bytes(content)
        assert native.opened(tmp_path / "damaged.so") is None
    assert native.opened(Path(ctypes.util.find_library("m") or "libm.so.6")) is None


def test_libraries_of_other_sources_are_passed_over(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    these = native.checksum_of_sources()
    for sources in (these, these ^ 1):
        library = tmp_path / f"{sources}.so"
        command = [compiler, "-shared", "-fPIC", f"-DROTTA_SOURCES={sources}u"]
        subprocess.run([*command, str(FOLDER / "norms.c"), "-o", str(library), "-lm"], check=True)
        assert (native.opened(library) is not None) == (sources == these)
