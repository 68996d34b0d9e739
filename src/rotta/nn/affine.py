"""Scale and shift of each channel: what normalisation comes to once its statistics are known."""

import torch
from torch import Tensor

from rotta.nn import norm_cpu
from rotta.nn.relu_norm import before_relu
from rotta.nn.watching import are_plain


def scaled_and_shifted(
    x: Tensor, scale: Tensor, shift: Tensor, *, relu: bool = False, out: Tensor | None = None
) -> Tensor:
    """``scale·x + shift``, and ReLU of it if wanted, in one pass where that is known; no gradient.

    Args:
        x: (B, C, …).
        scale: Of each channel, (C,), or of those of each image, (B, C).
        shift: Likewise.
        relu: Whether to apply ReLU.
        out: ``x``, if it may be overwritten; it need not be.

    Example:
        >>> x = torch.ones(1, 2, 1, 1)
        >>> scaled_and_shifted(x, torch.tensor([2.0, 3.0]), torch.tensor([0.0, 1.0])).flatten()
        tensor([2., 4.])
    """
    if own_kernels_serve(x, scale, shift):
        return norm_cpu.scaled_and_shifted(x, scale.contiguous(), shift.contiguous(), relu, out)
    if scale.ndim == 1:
        zeros, ones = torch.zeros_like(scale), torch.ones_like(scale)
        result = torch.batch_norm(x, scale, shift, zeros, ones, False, 0.0, 0.0, False)
    else:
        shape = *scale.shape, *[1] * (x.ndim - 2)
        result = torch.addcmul(shift.view(shape), x, scale.view(shape), out=out)
    return result.relu_() if relu else result


def own_kernels_serve(x: Tensor, scale: Tensor, shift: Tensor) -> bool:
    """Whether our kernels scale and shift (B, C, …)."""
    return norm_cpu.usable(x) and are_plain(scale, shift) and scale.dtype == x.dtype


class OwnGradients:
    """Gradients of :func:`scaled_and_shifted` where each image has its own numbers.

    Args:
        grad: ∂L/∂y, (B, C, …).
        x: What went in, (B, C, …).
        scale: As it was, (B, C, 1, …).
        shift: Likewise.
        relu: Whether there was a ReLU.
        by_kernels: Whether :func:`own_kernels_serve`, as it was said then.
        after_relu: What came out; not needed without a ReLU, nor by our kernels, which ask ``x``.

    Example:
        >>> x, ones = torch.tensor([[[3.0, -1.0]]]), torch.ones(1, 1, 1)
        >>> gradients = OwnGradients(torch.ones_like(x), x, ones, 0 * ones, False, False)
        >>> [each.item() for each in gradients.sums(centre=ones)]
        [0.0, 2.0]
    """

    def __init__(
        self,
        grad: Tensor,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        relu: bool,
        by_kernels: bool,
        after_relu: Tensor | None = None,
    ) -> None:
        self._x, self._scale, self._shift, self._relu = x, scale, shift, relu
        self._by_kernels = by_kernels
        if by_kernels:
            self._x, self._grad = norm_cpu.laid_out(x), norm_cpu.laid_out(grad)
        else:
            self._grad = before_relu(grad, x, after_relu)

    def sums(self, centre: Tensor) -> tuple[Tensor, Tensor]:
        """Σ g·(x − centre) and Σ g over each instance, (B, C, 1, …), g being ∂L/∂y before a ReLU.

        Args:
            centre: (B, C, 1, …).
        """
        if self._by_kernels:
            numbers = self._flat(self._scale, self._shift, centre)
            sums = norm_cpu.gradient_sums(self._grad, self._x, *numbers, relu=self._relu)
            of_scale, of_shift = (each.view_as(self._scale) for each in sums)
            return of_scale, of_shift
        axes = list(range(2, self._x.ndim))
        g = self._grad.sum(dim=axes, keepdim=True)
        with_x = (self._grad * self._x).sum(dim=axes, keepdim=True)
        return torch.addcmul(with_x, centre, g, value=-1), g

    def of_x(self, slope: Tensor, offset: Tensor) -> Tensor:
        """``scale·g + slope·x + offset``, (B, C, …).

        Args:
            slope: (B, C, 1, …).
            offset: Likewise.
        """
        if self._by_kernels:
            numbers = self._flat(self._scale, self._shift, slope, offset)
            return norm_cpu.gradient(self._grad, self._x, *numbers, relu=self._relu)
        return torch.addcmul(offset, self._x, slope).addcmul_(self._grad, self._scale)

    def _flat(self, *numbers: Tensor) -> tuple[Tensor, ...]:
        """As the kernels want them, (B, C)."""
        return tuple(each.flatten(1).contiguous() for each in numbers)
