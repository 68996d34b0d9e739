"""ResNeXt-29 for 32×32 images (Xie et al., 2017), with the key names of the AugMix release."""

import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models.classifier import Classifier, initialise_layers

EXPANSION = 4


class ResNeXtBottleneck(nn.Module):
    """1×1 down, grouped 3×3, 1×1 up.

    Args:
        inputs: Channels coming in.
        planes: 64, 128 or 256; ``EXPANSION`` times as many go out.
        stride: Of the grouped convolution and of the shortcut.
        cardinality: Number of groups.
        base_width: Channels per group where ``planes`` is 64.
    """

    def __init__(
        self, inputs: int, planes: int, stride: int, cardinality: int, base_width: int
    ) -> None:
        super().__init__()
        width = cardinality * (planes * base_width // 64)
        outputs = planes * EXPANSION
        self.conv_reduce = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn_reduce = nn.BatchNorm2d(width)
        self.conv_conv = nn.Conv2d(
            width, width, 3, stride, padding=1, groups=cardinality, bias=False
        )
        self.bn = nn.BatchNorm2d(width)
        self.conv_expand = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn_expand = nn.BatchNorm2d(outputs)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride != 1 or inputs != outputs
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, EXPANSION · planes, H / stride, W / stride)."""
        residual = F.relu(self.bn_reduce(self.conv_reduce(x)), inplace=True)
        residual = F.relu(self.bn(self.conv_conv(residual)), inplace=True)
        residual = self.bn_expand(self.conv_expand(residual))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(residual.add_(shortcut), inplace=True)


class ResNeXt29(Classifier):
    """Three stages of three bottlenecks, 64 to 1,024 channels, average pooling.

    Args:
        num_classes: Size of the output.
        cardinality: Groups of each grouped convolution.
        base_width: Channels per group in the first stage.

    Example:
        >>> import torch
        >>> net = ResNeXt29(num_classes=100, cardinality=2, base_width=4)
        >>> net(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    head_name = "classifier"

    def __init__(self, num_classes: int, cardinality: int = 4, base_width: int = 32) -> None:
        # AugMix training maps colours to [-1, 1]
        super().__init__(mu=(0.5, 0.5, 0.5), sigma=(0.5, 0.5, 0.5))

        def stage(inputs: int, planes: int, stride: int) -> nn.Sequential:
            first = ResNeXtBottleneck(inputs, planes, stride, cardinality, base_width)
            rest = (
                ResNeXtBottleneck(planes * EXPANSION, planes, 1, cardinality, base_width)
                for _ in range(2)
            )
            return nn.Sequential(first, *rest)

        self.conv_1_3x3 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn_1 = nn.BatchNorm2d(64)
        self.stage_1 = stage(64, 64, stride=1)
        self.stage_2 = stage(256, 128, stride=2)
        self.stage_3 = stage(512, 256, stride=2)
        self.classifier = nn.Linear(1024, num_classes)
        initialise_layers(self)

    def features(self, x: Tensor) -> Tensor:
        """Penultimate features, (B, 1024)."""
        x = F.relu(self.bn_1(self.conv_1_3x3(self.normalise(x))), inplace=True)
        x = self.stage_3(self.stage_2(self.stage_1(x)))
        return x.mean((2, 3))
