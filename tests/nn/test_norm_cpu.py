"""What the kernels for CPUs promise beside their values: bits, bounds, and who may use them.

Their values are held beside formulas in test_norm_kernels.py and test_affine.py.
"""

import ctypes.util
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from sysconfig import get_config_var

import pytest
import torch
from torch import Tensor, nn

from rotta.nn import native, norm_cpu
from rotta.nn.rbn import RobustBatchNorm

pytestmark = pytest.mark.skipif(
    native.library() is None, reason="kernels for CPUs were not compiled: needs a C compiler"
)

FOLDER = Path(native.__file__).parent
LIBRARIES = sorted(FOLDER.glob(f"kernels*{get_config_var('EXT_SUFFIX')}"))
SHAPES = [(1, 1), (5, 3), (64, 16, 32, 32), (3, 37, 5, 7), (2, 5000), (70001, 2)]


def innermost(*shape: int, seed: int = 0) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


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
    return [y, saved, mean, var, of_x, *others, normal, *norm_cpu.channel_moments(x)]


def checksum(results: list[Tensor]) -> str:
    return hashlib.sha256(b"".join(each.numpy().tobytes() for each in results)).hexdigest()


def checksums() -> list[str]:
    return [checksum(all_results(*shape)) for shape in SHAPES]


def test_results_do_not_depend_on_how_many_threads_there_are() -> None:
    """In a process of its own: OpenMP's threads would stay, and later tests fork."""
    script = "import torch, test_norm_cpu as t\n"
    script += "for n in (1, 2, 3): torch.set_num_threads(n); print(*t.checksums())"
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "PYTHONPATH": str(Path(__file__).parent)}
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


def test_second_derivatives_are_refused_rather_than_wrong() -> None:
    layer = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3)).train()
    x = innermost(4, 3, 5, 5).requires_grad_()
    (first,) = torch.autograd.grad(layer(x).pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()  # type: ignore[no-untyped-call]


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


def test_libraries_of_older_sources_are_passed_over(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source, library = tmp_path / "older.c", tmp_path / "older.so"
    source.write_text("int rotta_interface(void) { return 0; }")
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", library], check=True)
    assert native.opened(library) is None
