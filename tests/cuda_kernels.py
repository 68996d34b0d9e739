"""Where the kernels for CUDA can be tested: on a GPU, or on a CPU by Triton's interpreter.

The interpreter shows what they compute; it knows neither speed nor races nor CUDA graphs.
``make test-kernels`` installs Triton and runs what can be run so.
"""

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from rotta.memory import cstu_cuda
from rotta.nn import augment_cuda, norm_cuda

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ON_A_GPU = torch.cuda.is_available() and not INTERPRETED
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")

_HAS_TRITON = find_spec("triton") is not None
for_cuda = (
    pytest.mark.skipif(
        not (ON_A_GPU or INTERPRETED),
        reason="needs a CUDA device, or Triton's interpreter: make test-kernels",
    ),
    pytest.mark.skipif(not _HAS_TRITON, reason="needs Triton"),
)
on_a_gpu = pytest.mark.skipif(not ON_A_GPU, reason="needs a CUDA device")
interpreted = pytest.mark.skipif(
    not (INTERPRETED and _HAS_TRITON), reason="needs Triton's interpreter: make test-kernels"
)


@contextlib.contextmanager
def without_a_gpu() -> Iterator[pytest.MonkeyPatch]:
    """Kernels can be called for tensors on a CPU, if they are interpreted."""
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRETED:
            patch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
        yield patch


@contextlib.contextmanager
def serving_all() -> Iterator[None]:
    """The kernels serve on a CPU whatever they would serve on a GPU."""
    with without_a_gpu() as patch:
        patch.setattr(norm_cuda, "usable", _are_innermost)
        patch.setattr(cstu_cuda, "usable", lambda like: True)
        patch.setattr(augment_cuda, "usable", lambda x: x.dtype == torch.float32)
        yield


def _are_innermost(x: Tensor) -> bool:
    layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
    return x.ndim in (2, 4) and x.is_contiguous(memory_format=layout)
