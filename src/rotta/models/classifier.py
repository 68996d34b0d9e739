"""What every source network is: features, one linear layer on top, normalisation inside."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

from rotta.nn.watching import are_plain, is_watched

Colour = tuple[float, float, float]

IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)


class Classifier(nn.Module, ABC):
    """An image classifier that takes RGB in [0, 1] and normalises it itself.

    A network names its last linear layer in ``head_name``, so that files of others keep their key
    names, and computes everything below it in `features`.

    Args:
        mu: Subtracted from each colour channel.
        sigma: What each channel is then divided by.
    """

    head_name: ClassVar[str]
    mu: Tensor
    sigma: Tensor

    def __init__(self, mu: Colour = (0.0, 0.0, 0.0), sigma: Colour = (1.0, 1.0, 1.0)) -> None:
        super().__init__()
        self.register_buffer("mu", torch.tensor(mu).view(1, 3, 1, 1))
        self.register_buffer("sigma", torch.tensor(sigma).view(1, 3, 1, 1))

    @property
    def head(self) -> nn.Linear:
        """The last layer: (B, D) features to (B, num_classes) logits."""
        layer = getattr(self, self.head_name)
        assert isinstance(layer, nn.Linear)
        return layer

    def normalise(self, x: Tensor) -> Tensor:
        """Shift and scale RGB in [0, 1], (B, 3, H, W), to what the first layer was trained on.

        ``x`` itself where colours are used as they are, on a CPU.
        """
        return recoloured(x, self.mu, self.sigma)

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Penultimate features, (B, D), of RGB images in [0, 1], (B, 3, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), of RGB images in [0, 1], (B, 3, H, W)."""
        logits: Tensor = self.head(self.features(x))
        return logits


def recoloured(x: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    """``(x - mu) / sigma``; on a CPU without a pass over ``x`` where that changes nothing.

    With three channels innermost these passes are slow: together 2 % of a small network's. Other
    devices are not asked, for they would have to be waited for. To a tracer, which knows no
    numbers, this is one step.

    Example:
        >>> x, zeros, ones = torch.rand(1, 3, 8, 8), torch.zeros(3, 1, 1), torch.ones(3, 1, 1)
        >>> recoloured(x, zeros, ones) is x, recoloured(x, zeros, ones * 2).equal(x / 2)
        (True, True)
    """
    if has_torch_function((x, mu, sigma)):
        result: Tensor = handle_torch_function(recoloured, (x, mu, sigma), x, mu, sigma)
        return result
    if (
        x.device.type == "cpu"
        and x.dtype == mu.dtype == sigma.dtype
        and not is_watched()
        and are_plain(x, mu, sigma)
        and _leave_its_shape(x, mu, sigma)
        and not any(mu.flatten().tolist())
        and all(divisor == 1 for divisor in sigma.flatten().tolist())
    ):
        return x
    return (x - mu) / sigma


def _leave_its_shape(x: Tensor, *others: Tensor) -> bool:
    """Grey images become coloured, and one without a batch gets one."""
    together: torch.Size = torch.broadcast_shapes(x.shape, *(each.shape for each in others))  # type: ignore[no-untyped-call]
    return together == x.shape


def initialise_layers(model: nn.Module) -> None:
    """He initialisation for convolutions (fan-out), zero bias for linear layers."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
