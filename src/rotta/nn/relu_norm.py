"""Normalisation layers that can do the ReLU that follows them: a pass over memory less."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ReluNorm(nn.Module):
    """A normalisation layer that can be told what :func:`rotta.nn.fusion.fuse_relus` finds out.

    Attributes:
        relu: Whether it does the ReLU that follows it, too.
        may_overwrite: Whether nobody else needs what it normalises.
    """

    relu = False
    may_overwrite = False

    def activated(self, normal: Tensor) -> Tensor:
        """What was normalised, which is overwritten, after the ReLU if there is one."""
        return F.relu(normal, inplace=True) if self.relu else normal


def before_relu(grad: Tensor, x: Tensor, after_relu: Tensor | None = None) -> Tensor:
    """The gradient before a ReLU, if there is one, laid out as the values of the layer.

    Behind a mean over pixels gradients come in another layout than values, and arithmetic on both
    takes forty times as long as on what lies alike.

    Args:
        grad: Of what the layer returned, (B, C, …).
        x: What it was given, (B, C, …).
        after_relu: What it returned, (B, C, …); None if it has no ReLU.

    Example:
        >>> grad, values = torch.tensor([[3.0, 3.0]]), torch.tensor([[-1.0, 2.0]])
        >>> before_relu(grad, values, values.relu())
        tensor([[0., 3.]])
    """
    if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
        grad = grad.contiguous(memory_format=torch.channels_last)
    if after_relu is None:
        return grad
    passed: Tensor = torch.ops.aten.threshold_backward(grad, after_relu, 0)
    return passed
