"""Wide residual networks for 32×32 images (Zagoruyko and Komodakis, 2016).

Key names are RobustBench's, whose files load as they are.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models.classifier import Classifier, initialise_layers


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class PreActivationBlock(nn.Module):
    """Norm, ReLU, convolution, twice; a 1×1 convolution on the shortcut where widths differ."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        self.convShortcut = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        activated = F.relu(self.bn1(x), inplace=True)
        # where the shape changes, the shortcut starts after the shared activation
        shortcut = x if self.convShortcut is None else self.convShortcut(activated)
        residual: Tensor = self.conv2(F.relu(self.bn2(self.conv1(activated)), inplace=True))
        return residual.add_(shortcut)


class BlockGroup(nn.Module):
    """Blocks of one width; the first may halve the resolution."""

    def __init__(self, blocks: int, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        first = PreActivationBlock(inputs, outputs, stride)
        rest = (PreActivationBlock(outputs, outputs, 1) for _ in range(blocks - 1))
        self.layer = nn.Sequential(first, *rest)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        result: Tensor = self.layer(x)
        return result


class WideResNet(Classifier):
    """WideResNet-``depth``-``widen``.

    Colours are used as they are unless a file brings ``mu`` and ``sigma``: the usual CIFAR-10
    networks of this family are trained that way.

    Args:
        depth: 6n + 4: three groups of n blocks.
        widen: Factor on the widths 16, 32, 64.
        num_classes: Size of the output.

    Example:
        >>> import torch
        >>> net = WideResNet(depth=10, widen=1, num_classes=10)
        >>> net(torch.rand(2, 3, 32, 32)).shape, net.features(torch.rand(2, 3, 32, 32)).shape
        (torch.Size([2, 10]), torch.Size([2, 64]))
    """

    head_name = "fc"

    def __init__(self, depth: int, widen: int, num_classes: int) -> None:
        super().__init__()
        blocks, remainder = divmod(depth - 4, 6)
        if remainder or blocks < 1:
            raise ValueError(f"a wide residual network has a depth of 6n + 4, not {depth}")
        self.conv1 = _conv3x3(3, 16)
        self.block1 = BlockGroup(blocks, 16, 16 * widen, stride=1)
        self.block2 = BlockGroup(blocks, 16 * widen, 32 * widen, stride=2)
        self.block3 = BlockGroup(blocks, 32 * widen, 64 * widen, stride=2)
        self.bn1 = nn.BatchNorm2d(64 * widen)
        self.fc = nn.Linear(64 * widen, num_classes)
        initialise_layers(self)

    def features(self, x: Tensor) -> Tensor:
        """Penultimate features, (B, 64 · widen)."""
        x = self.conv1(self.normalise(x))
        x = self.block3(self.block2(self.block1(x)))
        return F.relu(self.bn1(x), inplace=True).mean((2, 3))
