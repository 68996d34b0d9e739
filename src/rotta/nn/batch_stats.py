"""Test-time batch normalisation: the statistics of the current batch, whatever the mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.nn import norm_cpu
from rotta.nn.fusion import fuse_relus
from rotta.nn.mixed_norm import moved_and_normalised
from rotta.nn.own_kernels import kernels_for
from rotta.nn.relu_norm import ReluNorm
from rotta.nn.surgery import (
    OTHER_NORMS,
    affine_parameters,
    copy_sharing_weights,
    replace_batch_norms,
    train_only,
)
from rotta.nn.trained_norm import BatchNorm


class BatchStatNorm(ReluNorm):
    """Normalise with the batch's own mean and variance; nothing is remembered.

    Example:
        >>> layer = BatchStatNorm.from_batchnorm(nn.BatchNorm2d(3).eval())
        >>> layer(torch.rand(2, 3, 4, 4) + 7.0).mean().abs().item() < 1e-4
        True
    """

    def __init__(self, weight: Tensor, bias: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.detach().clone())
        self.bias = nn.Parameter(bias.detach().clone())
        self.eps = eps
        self.passes = 1

    @classmethod
    def from_batchnorm(cls, bn: BatchNorm) -> "BatchStatNorm":
        """Take over γ and β, or ones and zeros where there are none."""
        features = bn.num_features
        like = next((t for t in (bn.weight, bn.running_mean) if t is not None), torch.empty(0))
        weight = like.new_ones(features) if bn.weight is None else bn.weight
        bias = like.new_zeros(features) if bn.bias is None else bn.bias
        return cls(weight, bias, bn.eps).train(bn.training)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, …).

        A batch of one value per channel has no variance; it is passed on as β, as the formula
        says, where the framework's own layer would raise an error.
        """
        if self.passes > 1:
            return self._each_pass(input)
        affine = self.weight, self.bias
        if input.numel() == input.shape[1]:
            output = self.bias.view(1, -1, *[1] * (input.ndim - 2)) + 0 * input
        # CUDA's kernels are worth it where graphs are recorded, which is not here
        elif input.device.type == "cpu" and kernels_for(input, *affine) is not None:
            return self._by_kernels(input)
        else:
            output = F.batch_norm(input, None, None, *affine, training=True, eps=self.eps)
        return self.activated(output)

    def _by_kernels(self, x: Tensor) -> Tensor:
        affine = self.weight, self.bias
        if torch.is_grad_enabled():
            nothing = torch.zeros_like(self.weight, requires_grad=False)
            moved = nothing, nothing.clone()  # all the way to the batch's own
            return moved_and_normalised(norm_cpu, x, *affine, *moved, 1.0, self.eps, self.relu)
        var, mean = norm_cpu.channel_moments(x)
        place = x if self.may_overwrite else None
        return norm_cpu.normalise(x, mean, var, *affine, self.eps, self.relu, place)

    @torch.no_grad()
    def _each_pass(self, x: Tensor) -> Tensor:
        """Statistics of each of the passes that (P · B, C, …) holds one after the other.

        By kernels of our own if there are any; else a call of the framework's kernel for each: one
        set of its operations for all took ten times as long.
        """
        affine = self.weight, self.bias
        kernels = kernels_for(x, *affine)
        if kernels is not None:
            return kernels.normalise_passes(x, self.passes, *affine, self.eps, self.relu)
        output = torch.empty_like(x)
        statistics = torch.empty_like(self.weight), torch.empty_like(self.weight)
        for one, normal in zip(x.chunk(self.passes), output.chunk(self.passes), strict=True):
            torch.native_batch_norm(
                one, self.weight, self.bias, None, None, True, 0.0, self.eps,
                out=(normal, *statistics),
            )  # fmt: skip
        return self.activated(output)


@contextmanager
def separate_passes(net: nn.Module, passes: int) -> Iterator[None]:
    """Within, a batch counts as so many passes one after the other, each with its statistics.

    They are for predicting: no gradient flows through the layers then.

    Example:
        >>> layer = BatchStatNorm.from_batchnorm(nn.BatchNorm2d(3))
        >>> a, b = torch.rand(4, 3, 2, 2), torch.rand(4, 3, 2, 2) + 5
        >>> with separate_passes(layer, 2):
        ...     together = layer(torch.cat([a, b]))
        >>> torch.allclose(together, torch.cat([layer(a), layer(b)]), atol=1e-4)
        True
    """
    layers = [module for module in net.modules() if isinstance(module, BatchStatNorm)]
    for layer in layers:
        layer.passes = passes
    try:
        yield
    finally:
        for layer in layers:
            layer.passes = 1


def on_batch_statistics(net: nn.Module) -> nn.Module:
    """A copy that normalises by the batch, in evaluation mode; all but its norms is shared."""
    copy = replace_batch_norms(copy_sharing_weights(net), BatchStatNorm.from_batchnorm)
    return fuse_relus(copy.eval())


def trainable_on_batch_statistics(net: nn.Module) -> tuple[nn.Module, list[nn.Parameter]]:
    """A copy that normalises by the batch, in which γ and β alone are trained; and these.

    Raises:
        ValueError: There is no normalisation layer with γ and β.
    """
    copy = on_batch_statistics(net)
    trained = affine_parameters(copy, (BatchStatNorm, *OTHER_NORMS))
    if not trained:
        raise ValueError(
            "the network has no normalisation layer with γ and β, so there is nothing to train: "
            "use method='lame', which adapts the predictions alone, or 'cotta', which trains all"
        )
    train_only(copy, trained)
    return copy, trained
