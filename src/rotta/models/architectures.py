"""The table of network architectures."""

from collections.abc import Callable
from functools import partial

import torch

from rotta.models.classifier import Classifier
from rotta.models.efficientnet_lite import EfficientNetLite0
from rotta.models.resnet import BasicBlock, Bottleneck, ResNet
from rotta.models.resnext import ResNeXt29
from rotta.models.wide_resnet import WideResNet
from rotta.registry import lookup

ARCHITECTURES: dict[str, Callable[[int], Classifier]] = {
    "wrn-28-10": partial(WideResNet, 28, 10),
    "wrn-40-2": partial(WideResNet, 40, 2),
    "wrn-10-1": partial(WideResNet, 10, 1),
    "resnext-29": ResNeXt29,
    "resnet-18": partial(ResNet, BasicBlock, (2, 2, 2, 2)),
    "resnet-50": partial(ResNet, Bottleneck, (3, 4, 6, 3)),
    "resnet-101": partial(ResNet, Bottleneck, (3, 4, 23, 3)),
    "efficientnet-lite0": EfficientNetLite0,
}
"""Name to builder; a builder takes the number of classes."""


def build(arch: str, num_classes: int, *, seed: int = 0) -> Classifier:
    """A network with fresh weights, in training mode, on the CPU.

    Args:
        arch: A name of `ARCHITECTURES`.
        num_classes: Size of the output, at least 1.
        seed: Of the weights. The global random state is left as it was.

    Raises:
        ValueError: Unknown architecture, or no class at all.

    Example:
        >>> build("wrn-10-1", num_classes=10).head
        Linear(in_features=64, out_features=10, bias=True)
    """
    builder = lookup(ARCHITECTURES, arch, "architecture")
    if num_classes < 1:
        raise ValueError(f"a classifier needs at least one class, got num_classes={num_classes}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return builder(num_classes)
