"""The one network of a pool, which normalises each stream's images by that stream's numbers."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.adapters.logits import Intact, logits_of
from rotta.nn.affine import scaled_and_shifted
from rotta.nn.frozen_conv import freeze_convolutions
from rotta.nn.fusion import fuse_relus
from rotta.nn.mixed_norm import mixed_norm, moved_and_normalised
from rotta.nn.moments import channel_moments
from rotta.nn.own_kernels import kernels_for
from rotta.nn.packed_conv import pack_convolutions, usable
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import (
    OTHER_NORMS,
    affine_parameters,
    copy_sharing_weights,
    replace_batch_norms,
)


class PooledNorm(RobustBatchNorm):
    """Normalise a batch in which every stream's images have numbers of their own.

    The numbers are lent to it for one pass. To predict, each image has its own scale and shift. In
    an update, the batch holds an image of each of G streams, then the next image of each, and so
    on: in memory it is one of G·C channels, which are normalised as any others. So nothing is
    copied, and kernels that know nothing of streams serve.

    Attributes:
        scale_and_shift: Of each image, (B, C) both, if it predicts.
        moving: μ, σ², γ and β of G streams, (G·C,) each, if it updates; μ and σ² are moved, by
            ``alpha``.
    """

    scale_and_shift: tuple[Tensor, Tensor] | None = None
    moving: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Normalise (B, C, …) or (N·G, C, …)."""
        if self.moving is not None:
            return self._moved(input, *self.moving)
        assert self.scale_and_shift is not None, "nobody has lent it any numbers"
        scale, shift = self.scale_and_shift
        _check_alone(input, len(scale))
        place = input if self.may_overwrite else None
        return scaled_and_shifted(input, scale, shift, relu=self.relu, out=place)

    def _moved(self, x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Move statistics towards the batch's, in place, and normalise with them."""
        streams = len(mean) // x.shape[1]
        kernels = kernels_for(x, mean, var, weight, bias)
        if streams == 1 and kernels is not None and _in_place(mean, var, weight, bias):
            numbers = weight, bias, mean, var
            return moved_and_normalised(kernels, x, *numbers, self.alpha, self.eps, self.relu)
        together = x
        if streams > 1:
            _check_alone(x, len(x) // streams * streams)
            together = x.contiguous().view(len(x) // streams, -1, *x.shape[2:])
        batch_var, batch_mean = channel_moments(together)
        torch._foreach_lerp_([mean, var], [batch_mean, batch_var], self.alpha)
        if torch.is_grad_enabled():
            moved = torch.stack([mean, var])  # a copy: a layer may be used twice
            output = mixed_norm(
                together, weight, bias, batch_mean, moved, self.alpha, self.eps, self.relu
            )
        else:
            numbers = mean, var, weight, bias
            output = self.activated(F.batch_norm(together, *numbers, eps=self.eps))
        return output if streams == 1 else output.view_as(x)


def _in_place(*vectors: Tensor) -> bool:
    """Whether parts of a row lie where kernels expect them: those for CUDA not just anywhere."""
    return all(
        each.dtype == torch.float32 and (not each.is_cuda or each.data_ptr() % 16 == 0)
        for each in vectors
    )


def _check_alone(x: Tensor, images: int) -> None:
    if len(x) != images:
        raise ValueError(
            f"a BatchNorm layer sees a batch of {len(x)} for {images} images: a network that "
            "joins images or takes them apart cannot serve several streams at once"
        )


class PooledNetwork:
    """A frozen copy of a network, for several streams at once.

    A stream's numbers are a row, (ΣC,), layer after layer.

    Args:
        net: Is not changed.
        num_classes: C.

    Raises:
        ValueError: RoTTA would train more of the network than a pool can.

    Attributes:
        source: μ, σ², γ and β of all layers, as they were given, (4, ΣC).

    Example:
        >>> layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)
        >>> network = PooledNetwork(nn.Sequential(*layers), num_classes=5)
        >>> statistics, affine = network.source.view(2, 2, 1, 4).expand(2, 2, 7, 4)
        >>> network.logits(torch.rand(7, 3, 8, 8), statistics, affine).shape
        torch.Size([7, 5])
    """

    def __init__(self, net: nn.Module, num_classes: int) -> None:
        if affine_parameters(net, OTHER_NORMS):
            raise ValueError(
                "the network has LayerNorm, GroupNorm or InstanceNorm layers besides BatchNorm, "
                "which RoTTA trains and a pool does not: use a RoTTA for each stream"
            )
        own = replace_batch_norms(copy_sharing_weights(net), PooledNorm.from_batchnorm)
        # then the images decide about the layout
        own = own.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self._net = fuse_relus(own.requires_grad_(False).eval())
        self._norms = [m for m in self._net.modules() if isinstance(m, PooledNorm)]
        if all(p.is_cuda for p in net.parameters()):
            freeze_convolutions(self._net, None, {})
        self._predicting = pack_convolutions(self._net)  # the same layers
        self._num_classes = num_classes
        self._intact = Intact()
        self._channels = [len(norm.weight) for norm in self._norms]
        trained = ((n.running_mean, n.running_var, n.weight, n.bias) for n in self._norms)
        self.source = torch.stack([torch.cat(field) for field in zip(*trained, strict=True)])
        each = [norm.eps for norm in self._norms for _ in norm.weight]
        self._eps = torch.tensor(each, dtype=torch.float64).to(self.source)

    @torch.no_grad()
    def logits(self, x: Tensor, statistics: Tensor, affine: Tensor) -> Tensor:
        """Predict, each image by its own numbers; without gradient.

        Args:
            x: Images, (B, C, H, W), in whatever layout.
            statistics: μ and σ² for each image, (2, B, ΣC).
            affine: γ and β for each image, (2, B, ΣC).

        Returns:
            (B, num_classes).
        """
        scale = affine[0] * torch.rsqrt(statistics[1] + self._eps)
        shift = torch.addcmul(affine[1], statistics[0], scale, value=-1)
        of_layers = zip(self._by_layer(scale), self._by_layer(shift), strict=True)
        for norm, scale_and_shift in zip(self._norms, of_layers, strict=True):
            norm.scale_and_shift = scale_and_shift
        if usable() and self._predicting is not self._net:
            return self._run(self._predicting, x)
        # channels innermost, as our kernels want it
        return self._run(self._net, x.contiguous(memory_format=torch.channels_last))

    def moved_logits(self, x: Tensor, statistics: Tensor, affine: Tensor, alpha: float) -> Tensor:
        """The same in an update, by statistics that are moved first, in place.

        Args:
            x: Images, (N·G, C, H, W): one of every stream, then the next of every stream, …
            statistics: μ and σ² of each stream, (2, G, ΣC); changed.
            affine: γ and β of each stream, (2, G, ΣC); gradients flow to them.
            alpha: α, share of the batch in the moved statistics.

        Returns:
            (N·G, num_classes).
        """
        held = [of_layer.flatten(1) for of_layer in self._by_layer(statistics)]
        learnt = [of_layer.flatten(1) for of_layer in self._by_layer(affine)]
        for norm, (mean, var), (weight, bias) in zip(self._norms, held, learnt, strict=True):
            norm.moving, norm.alpha = (mean, var, weight, bias), alpha
        streams = statistics.shape[1]
        # channels of several streams lie side by side in one layout, the other is faster for one
        layout = torch.channels_last if streams == 1 else torch.contiguous_format
        logits = self._run(self._net, x.contiguous(memory_format=layout))
        moved = torch.cat([of_layer.view(2, streams, -1) for of_layer in held], dim=2)
        statistics.copy_(moved)
        return logits

    def _by_layer(self, numbers: Tensor) -> tuple[Tensor, ...]:
        """(…, ΣC) to (…, C) for each layer."""
        return torch.split(numbers, self._channels, dim=-1)

    def _run(self, net: nn.Module, x: Tensor) -> Tensor:
        try:
            return logits_of(self._intact(net, x), self._num_classes)
        finally:
            for norm in self._norms:  # graphs of activations hang on to them
                norm.scale_and_shift = norm.moving = None
