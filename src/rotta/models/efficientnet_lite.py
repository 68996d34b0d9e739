"""EfficientNet-Lite0 (Tan and Le, 2019; the variant without squeeze-and-excitation).

Key names and numerics are those of the published ImageNet weights: TensorFlow's padding, which
at stride 2 puts the odd pixel on the right and at the bottom, ReLU6, and BatchNorm with ε = 1e-3.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from rotta.models.classifier import Classifier, initialise_layers

STAGES = (
    # blocks, kernel, stride, expansion, outputs
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _same_padding(kernel: int, stride: int) -> tuple[int, int, int, int]:
    """Left, right, top, bottom for TensorFlow's "same" on maps whose sides the stride divides."""
    before, after = (kernel - stride) // 2, (kernel - stride + 1) // 2
    return before, after, before, after


class InvertedResidual(nn.Module):
    """1×1 up (unless ``expansion`` is 1), depthwise, 1×1 down without activation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self._expand_conv = nn.Conv2d(inputs, width, 1, bias=False) if expansion != 1 else None
        self._bn0 = _norm(width) if expansion != 1 else None
        self._padding = _same_padding(kernel, stride)
        self._depthwise_conv = nn.Conv2d(width, width, kernel, stride, groups=width, bias=False)
        self._bn1 = _norm(width)
        self._project_conv = nn.Conv2d(width, outputs, 1, bias=False)
        self._bn2 = _norm(outputs)
        self._residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        out = x
        if self._expand_conv is not None and self._bn0 is not None:
            out = F.relu6(self._bn0(self._expand_conv(out)))
        out = self._depthwise_conv(F.pad(out, self._padding))
        projected: Tensor = self._bn2(self._project_conv(F.relu6(self._bn1(out))))
        return x + projected if self._residual else projected


class EfficientNetLite0(Classifier):
    """EfficientNet-Lite0; the sides of the image should be multiples of 32.

    Dropout and stochastic depth of the original training are left out: they have no weights and
    do nothing at test time.

    Args:
        num_classes: Size of the output.

    Example:
        >>> import torch
        >>> EfficientNetLite0(num_classes=7)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 7])
    """

    head_name = "_fc"

    def __init__(self, num_classes: int) -> None:
        # (byte - 127) / 128, as in the training of the published weights
        super().__init__(mu=(127 / 255,) * 3, sigma=(128 / 255,) * 3)
        self._conv_stem = nn.Conv2d(3, 32, 3, stride=2, bias=False)
        self._bn0 = _norm(32)
        self._blocks = nn.ModuleList()
        inputs = 32
        for blocks, kernel, stride, expansion, outputs in STAGES:
            for i in range(blocks):
                first_stride = stride if i == 0 else 1
                self._blocks.append(
                    InvertedResidual(inputs, outputs, kernel, first_stride, expansion)
                )
                inputs = outputs
        self._conv_head = nn.Conv2d(inputs, 1280, 1, bias=False)
        self._bn1 = _norm(1280)
        self._fc = nn.Linear(1280, num_classes)
        initialise_layers(self)

    def features(self, x: Tensor) -> Tensor:
        """Penultimate features, (B, 1280)."""
        x = F.pad(self.normalise(x), _same_padding(kernel=3, stride=2))
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))
