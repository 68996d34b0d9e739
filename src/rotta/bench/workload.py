"""What is measured on: a network, and images for it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rotta.models.architectures import ARCHITECTURES, build
from rotta.models.classifier import Classifier
from rotta.models.sources import SOURCES, load_source
from rotta.nn.surgery import BATCH_NORMS, layers_of, layers_training
from rotta.registry import lookup

IMAGE_SIDES = {
    "wrn-28-10": 32,
    "wrn-40-2": 32,
    "wrn-10-1": 32,
    "resnext-29": 32,
    "resnet-18": 64,
    "resnet-50": 64,
    "resnet-101": 64,
    "efficientnet-lite0": 64,
}
"""Side of the images, in pixels, unless told otherwise; by architecture."""

BANK = 64
"""Places in a bank, and samples between updates: RoTTA's own, as in the paper."""

_CLASSES = 10


@dataclass(frozen=True, eq=False)
class Workload:
    """Equal for everything that is measured."""

    net: nn.Module
    """In evaluation mode, channels-last, float32."""
    num_classes: int
    images: Tensor
    """(P, 3, side, side), channels-last: at least a bank and the largest batch."""

    @property
    def device(self) -> torch.device:
        """Where both are."""
        return self.images.device

    def batches(self, size: int) -> list[Tensor]:
        """As many different batches of (size, 3, side, side) as there are images for."""
        return [batch for batch in torch.split(self.images, size) if len(batch) == size]


def make_workload(
    model: str,
    device: torch.device | str = "cpu",
    *,
    largest_batch: int = BANK,
    num_classes: int | None = None,
    image_size: int | None = None,
) -> Workload:
    """Build or load the network, and draw images.

    An architecture gets random weights, and the images' own statistics in its BatchNorm layers:
    without them activations would double from block to block.

    Args:
        model: A name of `ARCHITECTURES` or `SOURCES`.
        device: Where to put both.
        largest_batch: How many images are needed at once.
        num_classes: Outputs of an architecture, 10 if left out. A source has its own.
        image_size: Side of the images in pixels; that of :data:`IMAGE_SIDES` if left out.

    Raises:
        ValueError: Unknown model, or a number of classes for a source.
        FileNotFoundError: The weights of the source are not here.

    Example:
        >>> load = make_workload("wrn-10-1", num_classes=5)
        >>> load.net(load.batches(32)[1]).shape
        torch.Size([32, 5])
    """
    arch, make = _maker(model, num_classes)
    images = _pictures(max(BANK, largest_batch), image_size or IMAGE_SIDES[arch])
    images = images.to(device).contiguous(memory_format=torch.channels_last)
    net = make().to(device).eval()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if model in ARCHITECTURES:
        _take_statistics(net, images[:BANK])
    return Workload(net, net.head.out_features, images)


def _maker(model: str, num_classes: int | None) -> tuple[str, Callable[[], Classifier]]:
    """The architecture of a model, and how to get it."""
    lookup({**ARCHITECTURES, **SOURCES}, model, "model")
    if model in ARCHITECTURES:
        return model, lambda: build(model, num_classes or _CLASSES)
    source = SOURCES[model]
    if num_classes not in (None, source.num_classes):
        raise ValueError(f"{model} tells {source.num_classes} classes apart: leave --classes out")
    return source.arch, lambda: load_source(model)


def _pictures(count: int, side: int) -> Tensor:
    """Smooth random pictures in [0, 1], (count, 3, side, side)."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    return nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")


@torch.no_grad()
def _take_statistics(net: nn.Module, images: Tensor) -> None:
    norms = layers_of(net, *BATCH_NORMS)
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with layers_training(norms):
        net(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
