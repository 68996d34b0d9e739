"""Which kernels of our own can normalise a batch: those for CUDA, those for CPUs, or none."""

from typing import Protocol

from torch import Tensor

from rotta.nn import norm_cpu, norm_cuda
from rotta.nn.watching import are_plain


class NormKernels(Protocol):
    """What :mod:`~rotta.nn.norm_cuda` and :mod:`~rotta.nn.norm_cpu` both do, explained there."""

    def usable(self, x: Tensor) -> bool:
        """Whether they can serve."""

    def normalise(
        self,
        x: Tensor,
        mean: Tensor,
        var: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        relu: bool,
        out: Tensor | None = None,
    ) -> Tensor:
        """By given statistics."""

    def move_and_normalise(
        self,
        x: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        weight: Tensor,
        bias: Tensor,
        alpha: float,
        eps: float,
        relu: bool,
    ) -> tuple[Tensor, Tensor]:
        """By statistics that are moved first."""

    def normalise_passes(
        self, x: Tensor, passes: int, weight: Tensor, bias: Tensor, eps: float, relu: bool
    ) -> Tensor:
        """By the statistics of each pass."""

    def backward(
        self,
        grad: Tensor,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        saved: Tensor,
        share: float,
        relu: bool,
        of_x: bool,
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """Gradients of ``move_and_normalise``."""


_KINDS: tuple[NormKernels, ...] = (norm_cuda, norm_cpu)


def kernels_for(x: Tensor, *numbers: Tensor) -> NormKernels | None:
    """The kernels that can normalise a batch; none if that is left to PyTorch's.

    Args:
        x: (B, C, …).
        numbers: Of channels, (C,) each, which a kernel would read as they lie in memory.

    Example:
        >>> import torch
        >>> kernels_for(torch.zeros(2, 3, dtype=torch.float64)) is None
        True
    """
    for kernels in _KINDS:
        if kernels.usable(x):
            as_they_lie = are_plain(*numbers) and all(map(Tensor.is_contiguous, numbers))
            return kernels if as_they_lie else None
    return None
