"""The strong view: colour, shape, blur, mirror and noise, one draw for each group of images.

RoTTA shows its student one strong view of the whole bank per update; CoTTA averages 32 of a batch.
So parameters are drawn per group, and a batch holds one group or several, one after the other.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn.device_draws import device_generator

GREY = (0.2989, 0.587, 0.114)
BLUR_RADIUS = 2
_COLOUR_STEPS = 5


@dataclass(frozen=True)
class StrongView:
    """The draws of one strong view per group; every field is a tensor, (G, …), on one device."""

    order: Tensor
    """Which colour step comes when, (G, 5); on the CPU, since it decides what is called."""
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    gamma: Tensor
    angle: Tensor
    """Radians."""
    shift: Tensor
    """In whole pixels, right and down, (G, 2)."""
    scale: Tensor
    sigma: Tensor
    mirror: Tensor

    @classmethod
    def draw(
        cls, groups: int, height: int, width: int, generator: torch.Generator, device: torch.device
    ) -> "StrongView":
        """Draw on the generator's device, the CPU, so that every device sees the same views."""

        def zero_to_one(*shape: int) -> Tensor:
            size = (groups, *shape)
            return torch.rand(size, generator=generator, dtype=torch.float32, device="cpu")

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            return zero_to_one(*shape) * (high - low) + low

        order = torch.stack(
            [
                torch.randperm(_COLOUR_STEPS, generator=generator, device="cpu")
                for _ in range(groups)
            ]
        )
        reach = torch.tensor([width / 8, height / 8], dtype=torch.float32, device="cpu")
        drawn = cls(
            order=order,
            brightness=uniform(0.6, 1.4),
            contrast=uniform(0.7, 1.3),
            saturation=uniform(0.5, 1.5),
            hue=uniform(-0.06, 0.06),
            gamma=uniform(0.7, 1.3),
            angle=uniform(-math.pi / 12, math.pi / 12),
            shift=(uniform(-1.0, 1.0, 2) * reach).round(),
            scale=uniform(0.9, 1.1),
            sigma=uniform(0.001, 0.5),
            mirror=zero_to_one() < 0.5,
        )
        return drawn if device.type == "cpu" else drawn._on(device)

    def _on(self, device: torch.device) -> "StrongView":
        """All but the order moved to a device, in one transfer that nobody waits for."""
        moving = {name: t.view(len(t), -1) for name, t in vars(self).items() if name != "order"}
        packed = torch.cat([t.to(torch.float32) for t in moving.values()], dim=1)
        if device.type == "cuda":
            packed = packed.pin_memory()
        arrived = packed.to(device, non_blocking=True).split(
            [t.shape[1] for t in moving.values()], 1
        )
        there = {
            name: t.view_as(getattr(self, name)).to(getattr(self, name).dtype)
            for name, t in zip(moving, arrived, strict=True)
        }
        return StrongView(**there | {"order": self.order})


def drawn_strong_views(
    x: Tensor, generator: torch.Generator, views: int = 1, at_once: int = 1
) -> Iterator[Tensor]:
    """Strong views of a batch, one draw of parameters each.

    Args:
        x: RGB in [0, 1], (B, 3, H, W); other numbers of channels keep their hue.
        generator: On the CPU.
        views: V.
        at_once: How many to make together; the views are the same whatever it is.

    Yields:
        The next of them in [0, 1], (at_once · B, 3, H, W), view after view; the last time what is
        left.

    Example:
        >>> x, generator = torch.rand(4, 3, 8, 8), torch.Generator().manual_seed(0)
        >>> [len(some) for some in drawn_strong_views(x, generator, views=5, at_once=2)]
        [8, 8, 4]
    """
    height, width = x.shape[-2:]
    drawn = StrongView.draw(views, height, width, generator, x.device)
    there = device_generator(generator, x.device)
    for start in range(0, views, at_once):
        part = StrongView(**{name: t[start : start + at_once] for name, t in vars(drawn).items()})
        copies = len(part.angle)
        noise = [
            torch.randn(x.shape, generator=there, device=x.device, dtype=x.dtype)
            for _ in range(copies)
        ]
        yield strong_view(x.repeat(copies, 1, 1, 1), part, torch.cat(noise))


def strong_view(x: Tensor, view: StrongView, noise: Tensor) -> Tensor:
    """Apply one view to each group of images.

    Args:
        x: RGB in [0, 1], (G · B, 3, H, W), group after group.
        view: G draws.
        noise: Standard normal, like ``x``.

    Returns:
        The views in [0, 1], (G · B, 3, H, W).
    """
    groups = len(view.angle)
    image = _jitter(x.clamp(0, 1).view(groups, -1, *x.shape[1:]), view).flatten(0, 1)
    per_image = len(x) // groups
    each = {name: t.repeat_interleave(per_image, dim=0) for name, t in vars(view).items()}
    of = StrongView(**each)
    image = _blur(_affine(image, of, margin=BLUR_RADIUS), of.sigma)
    image = torch.where(_wide(of.mirror), image.flip(-1), image)
    return (image + 0.005 * noise).clamp_(0, 1)


def _wide(per_image: Tensor) -> Tensor:
    """(B,) to (B, 1, 1, 1)."""
    return per_image.view(-1, 1, 1, 1)


def _jitter(x: Tensor, view: StrongView) -> Tensor:
    """The five colour steps, in each group's own order, of (G, B, 3, H, W)."""
    steps = (_brightness, _contrast, _saturation, _hue, _gamma)
    factors = (view.brightness, view.contrast, view.saturation, view.hue, view.gamma)
    for turn in view.order.unbind(1):
        result = torch.empty_like(x)
        for number, (step, factor) in enumerate(zip(steps, factors, strict=True)):
            now = (turn == number).nonzero().squeeze(1)
            if len(now) == len(x):  # a single group: nothing to gather
                result = _stepped(step, x, factor)
            elif len(now):
                now = now.to(x.device)
                result[now] = _stepped(step, x[now], factor[now])
        x = result
    return x


def _stepped(step: Callable[[Tensor, Tensor], Tensor], x: Tensor, factor: Tensor) -> Tensor:
    """One colour step of the groups (G, B, 3, H, W), with a factor each, (G,)."""
    per_image = factor.repeat_interleave(x.shape[1])
    return step(x.flatten(0, 1), _wide(per_image)).view(x.shape)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] != 3:
        return x.mean(dim=1, keepdim=True)
    red, green, blue = x.unbind(1)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue).unsqueeze(1)


def _brightness(x: Tensor, factor: Tensor) -> Tensor:
    return (x * factor).clamp(0, 1)


def _contrast(x: Tensor, factor: Tensor) -> Tensor:
    mean = _grey(x).mean((1, 2, 3), keepdim=True)
    return (factor * x + (1 - factor) * mean).clamp(0, 1)


def _saturation(x: Tensor, factor: Tensor) -> Tensor:
    return (factor * x + (1 - factor) * _grey(x)).clamp(0, 1)


def _gamma(x: Tensor, gamma: Tensor) -> Tensor:
    return x.clamp(1e-8, 1.0).pow(gamma)


def _hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue by a share of the circle; value and saturation stay."""
    if x.shape[1] != 3:  # grey, or channels that are no colours
        return x
    value, low = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    chroma = value - low
    red, green, blue = x[:, 0:1], x[:, 1:2], x[:, 2:3]
    divisor = torch.where(chroma == 0, 1.0, chroma)
    sector = torch.where(
        value == red,
        (green - blue) / divisor % 6,
        torch.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    turned = sector + 6 * shift
    # channel n of HSV→RGB: V − C·max(0, min(k, 4 − k, 1)) with k = (n + H) mod 6, n = 5, 3, 1
    offsets = torch.arange(5, 0, -2, device=x.device, dtype=x.dtype).view(1, 3, 1, 1)
    k = (turned + offsets) % 6
    return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)


def _affine(x: Tensor, view: StrongView, margin: int) -> Tensor:
    """Rotate, scale and shift about the centre; ``margin`` more pixels come out on each side.

    Edge pixels are repeated beyond the border, which no allowed map leaves by more than half a
    side.
    """
    height, width = x.shape[-2:]

    def from_centre(side: int) -> Tensor:
        places = torch.arange(-margin, side + margin, device=x.device, dtype=torch.float32)
        return places - (side - 1) / 2

    column, row = from_centre(width), from_centre(height)
    column = column.view(1, 1, -1) - view.shift[:, 0].view(-1, 1, 1)
    row = row.view(1, -1, 1) - view.shift[:, 1].view(-1, 1, 1)
    cosine = (view.angle.cos() / view.scale).view(-1, 1, 1)
    sine = (view.angle.sin() / view.scale).view(-1, 1, 1)
    # the inverse map, in units where the image spans −1 … 1
    from_column = (cosine * column + sine * row) * (2 / width)
    from_row = (cosine * row - sine * column) * (2 / height)
    grid = torch.stack([from_column, from_row], dim=-1).to(x.dtype)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _blur(x: Tensor, sigma: Tensor) -> Tensor:
    """A 5×5 Gaussian per image; two pixels are lost on each side."""
    offset = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, device=x.device)
    weights = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True)).to(x.dtype)
    taps = [_wide(tap) for tap in weights.unbind(1)]
    height, width = x.shape[-2] - 2 * BLUR_RADIUS, x.shape[-1] - 2 * BLUR_RADIUS
    rows = sum(tap * x[..., i : i + height, :] for i, tap in enumerate(taps))
    assert isinstance(rows, Tensor)
    both = sum(tap * rows[..., :, i : i + width] for i, tap in enumerate(taps))
    assert isinstance(both, Tensor)
    return both
