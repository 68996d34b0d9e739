"""ResNet-18, -50 and -101 (He et al., 2016), with torchvision's key names.

The stride of a bottleneck sits on its 3×3 convolution ("v1.5"), as in torchvision's weights.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models.classifier import IMAGENET_MEAN, IMAGENET_STD, Classifier, initialise_layers


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    """Two 3×3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(inputs, planes, stride)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """Of the residual branch."""
        return self.bn2

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, planes, H / stride, W / stride)."""
        residual = F.relu(self.bn1(self.conv1(x)), inplace=True)
        residual = self.bn2(self.conv2(residual))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(residual.add_(shortcut), inplace=True)


class Bottleneck(nn.Module):
    """1×1 down, 3×3, 1×1 up to four times ``planes``."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = _shortcut(inputs, outputs, stride)

    @property
    def last_norm(self) -> nn.BatchNorm2d:
        """Of the residual branch."""
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, 4 · planes, H / stride, W / stride)."""
        residual = F.relu(self.bn1(self.conv1(x)), inplace=True)
        residual = F.relu(self.bn2(self.conv2(residual)), inplace=True)
        residual = self.bn3(self.conv3(residual))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(residual.add_(shortcut), inplace=True)


class ResNet(Classifier):
    """A residual network for images of about 96 to 224 pixels, with ImageNet's normalisation.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        depths: Blocks in each of the four stages.
        num_classes: Size of the output.

    Example:
        >>> import torch
        >>> net = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=7)
        >>> net(torch.rand(1, 3, 64, 64)).shape
        torch.Size([1, 7])
    """

    head_name = "fc"

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        num_classes: int,
    ) -> None:
        super().__init__(mu=IMAGENET_MEAN, sigma=IMAGENET_STD)

        def stage(inputs: int, planes: int, depth: int, stride: int) -> nn.Sequential:
            rest = (block(planes * block.expansion, planes, 1) for _ in range(depth - 1))
            return nn.Sequential(block(inputs, planes, stride), *rest)

        grown = block.expansion
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = stage(64, 64, depths[0], stride=1)
        self.layer2 = stage(64 * grown, 128, depths[1], stride=2)
        self.layer3 = stage(128 * grown, 256, depths[2], stride=2)
        self.layer4 = stage(256 * grown, 512, depths[3], stride=2)
        self.fc = nn.Linear(512 * grown, num_classes)
        initialise_layers(self)
        for module in self.modules():
            # every block begins as its shortcut: deep ones could not be trained from nothing
            if isinstance(module, BasicBlock | Bottleneck):
                nn.init.zeros_(module.last_norm.weight)

    def features(self, x: Tensor) -> Tensor:
        """Penultimate features, (B, 512) for basic blocks, (B, 2048) for bottlenecks."""
        x = F.relu(self.bn1(self.conv1(self.normalise(x))), inplace=True)
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))
