"""The strong view: colour, shape, blur, mirror and noise, one draw for each group of images.

RoTTA shows its student one strong view of the whole bank per update; CoTTA averages 32 of a batch.
So parameters are drawn per group, and a batch holds one group or several, one after the other.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.nn import augment_cuda
from rotta.nn.device_draws import device_generator

GREY = (0.2989, 0.587, 0.114)
BLUR_RADIUS = 2
NOISE = 0.005
_COLOUR_STEPS = 5
_CPU = torch.device("cpu")
_RANGES = (
    (0.6, 1.4),  # brightness
    (0.7, 1.3),  # contrast
    (0.5, 1.5),  # saturation
    (-0.06, 0.06),  # hue
    (0.7, 1.3),  # gamma
    (-math.pi / 12, math.pi / 12),  # angle
    (-1.0, 1.0),  # shift, in shares of its reach: two numbers
    (-1.0, 1.0),
    (0.9, 1.1),  # scale
    (0.001, 0.5),  # sigma
    (0.0, 1.0),  # mirror, below a half
)
_LOWEST = torch.tensor([[low] for low, _ in _RANGES], dtype=torch.float32, device=_CPU)
_SPAN = torch.tensor([[high - low] for low, high in _RANGES], dtype=torch.float32, device=_CPU)


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
        order = torch.stack(
            [torch.randperm(_COLOUR_STEPS, generator=generator, device=_CPU) for _ in range(groups)]
        )
        size = len(_RANGES), groups
        drawn = torch.rand(size, generator=generator, dtype=torch.float32, device=_CPU)
        drawn = drawn * _SPAN + _LOWEST
        brightness, contrast, saturation, hue, gamma, angle, _, _, scale, sigma, mirror = drawn
        reach = torch.tensor([width / 8, height / 8], dtype=torch.float32, device=_CPU)
        return cls(
            order=order,
            brightness=brightness,
            contrast=contrast,
            saturation=saturation,
            hue=hue,
            gamma=gamma,
            angle=angle,
            shift=(drawn[6:8].view(groups, 2) * reach).round(),
            scale=scale,
            sigma=sigma,
            mirror=mirror < 0.5,
        )._on(device)

    def packed(self, device: torch.device) -> Tensor:
        """All fields in one tensor, as they stand above, sent in a transfer nobody waits for.

        Returns:
            A row of float32 per group, (G, 16).
        """
        packed = torch.cat([t.view(len(t), -1) for t in vars(self).values()], dim=1)
        if device.type == "cuda":
            packed = packed.pin_memory()
        return packed.to(device, non_blocking=True)

    def _on(self, device: torch.device) -> "StrongView":
        """All but the order moved to a device."""
        if device.type == "cpu":
            return self
        widths = [t[0].numel() for t in vars(self).values()]
        arrived = self.packed(device).split_with_sizes(widths, dim=1)
        there = {
            name: t.view_as(field).to(field.dtype)
            for (name, field), t in zip(vars(self).items(), arrived, strict=True)
            if name != "order"
        }
        return StrongView(**there | {"order": self.order})

    def __getitem__(self, groups: slice) -> "StrongView":
        return StrongView(**{name: t[groups] for name, t in vars(self).items()})

    @classmethod
    def joined(cls, views: Sequence["StrongView"]) -> "StrongView":
        """The groups of several draws, one after the other."""
        fields = zip(*(vars(view).values() for view in views), strict=True)
        return cls(*(torch.cat(field) for field in fields))


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
    with_kernels = augment_cuda.usable(x)
    height, width = x.shape[-2:]
    drawn = StrongView.draw(views, height, width, generator, _CPU if with_kernels else x.device)
    packed = drawn.packed(x.device) if with_kernels else None
    there = device_generator(generator, x.device)
    for start in range(0, views, at_once):
        groups = slice(start, min(start + at_once, views))
        copies = groups.stop - groups.start
        noise = _noise(x, copies, there)
        if packed is not None:
            yield augment_cuda.strong_view(x, packed[groups], noise)
        else:
            yield strong_view(x.repeat(copies, 1, 1, 1), drawn[groups], noise)


def strong_view_of_each(x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """A strong view of each of several batches, all in one go.

    Args:
        x: RGB in [0, 1], (G, B, 3, H, W); other numbers of channels keep their hue.
        generators: One for each batch, on the CPU: its view is the one that
            :func:`drawn_strong_views` would draw of it alone.

    Returns:
        The views in [0, 1], (G, B, 3, H, W).

    Example:
        >>> x, seeds = torch.rand(2, 4, 3, 8, 8), (0, 1)
        >>> views = strong_view_of_each(x, [torch.Generator().manual_seed(s) for s in seeds])
        >>> (alone,) = drawn_strong_views(x[1], torch.Generator().manual_seed(1))
        >>> torch.equal(views[1], alone)
        True
    """
    height, width = x.shape[-2:]
    noise = torch.empty_like(x, memory_format=torch.contiguous_format)
    views = []
    for generator, of_batch in zip(generators, noise, strict=True):
        views.append(StrongView.draw(1, height, width, generator, _CPU))
        of_batch.normal_(generator=device_generator(generator, x.device))
    drawn, images, noise = StrongView.joined(views), x.flatten(0, 1), noise.flatten(0, 1)
    if augment_cuda.usable(images):
        strong = augment_cuda.strong_view(images, drawn.packed(x.device), noise)
    else:
        strong = strong_view(images, drawn._on(x.device), noise)
    return strong.view_as(x)


def _noise(x: Tensor, copies: int, generator: torch.Generator) -> Tensor:
    """Standard normal, (copies · B, 3, H, W); a draw for each copy, whatever is made at once."""
    noise = torch.empty((copies, *x.shape), device=x.device, dtype=x.dtype)
    for each in noise:
        each.normal_(generator=generator)
    return noise.flatten(0, 1)


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
    image = _blur(_affine(image, view, margin=BLUR_RADIUS), view.sigma)
    return image.add_(noise, alpha=NOISE).clamp_(0, 1)


def _wide(per_image: Tensor) -> Tensor:
    """(B,) to (B, 1, 1, 1)."""
    return per_image.view(-1, 1, 1, 1)


def _jitter(x: Tensor, view: StrongView) -> Tensor:
    """The five colour steps, in each group's own order, of (G, B, 3, H, W)."""
    steps = (_brightness, _contrast, _saturation, _hue, _gamma)
    factors = (view.brightness, view.contrast, view.saturation, view.hue, view.gamma)
    for turn in view.order.T.tolist():
        if len(turn) == 1:  # a single group: nothing to gather
            x = _stepped(steps[turn[0]], x, factors[turn[0]])
            continue
        result = torch.empty_like(x)
        for number in set(turn):
            groups = [group for group, now in enumerate(turn) if now == number]
            now = torch.tensor(groups, device=x.device)
            result[now] = _stepped(steps[number], x[now], factors[number][now])
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
    # 0 where it is the largest, 1 elsewhere: choosing by a mask takes the CPU ten times as long
    not_red, not_green = (value - red).sign_(), (value - green).sign_()
    ahead = (green - blue).lerp_((blue - red).lerp_(red - green, not_green), not_red)
    start = not_red * (2 + 2 * not_green)
    turned = ahead / chroma.clamp(min=torch.finfo(x.dtype).tiny) + start + 6 * shift
    # channel n of HSV→RGB: V − C·max(0, min(k, 4 − k, 1)) with k = (n + H) mod 6, n = 5, 3, 1:
    # so V − C·max(0, min(2 − |d|, 1)), d being how far n + H is from the next 2 + 6·integer
    offsets = torch.arange(3, -2, -2, device=x.device, dtype=x.dtype).view(1, 3, 1, 1)
    distance = turned + offsets
    distance = distance.sub_(distance.div(6).round_(), alpha=6).abs_()
    return torch.addcmul(value, chroma, (2 - distance).clamp_(0, 1), value=-1)


def _affine(x: Tensor, view: StrongView, margin: int) -> Tensor:
    """Rotate, scale, shift and mirror about the centre, of groups (G · B, 3, H, W).

    ``margin`` more pixels come out on each side. Edge pixels are repeated beyond the border, which
    no allowed map leaves by more than half a side.
    """
    height, width = x.shape[-2:]

    def from_centre(side: int) -> Tensor:
        places = torch.arange(-margin, side + margin, device=x.device, dtype=torch.float32)
        return places - (side - 1) / 2

    def per_group(numbers: Tensor) -> Tensor:
        return numbers.view(-1, 1, 1)

    column, row = from_centre(width).view(1, 1, -1), from_centre(height).view(1, -1, 1)
    column = torch.where(per_group(view.mirror), -column, column)
    column = column - per_group(view.shift[:, 0])
    row = row - per_group(view.shift[:, 1])
    cosine = per_group(view.angle.cos() / view.scale)
    sine = per_group(view.angle.sin() / view.scale)
    # the inverse map, in units where the image spans −1 … 1
    from_column = (cosine * column + sine * row) * (2 / width)
    from_row = (cosine * row - sine * column) * (2 / height)
    grid = torch.stack([from_column, from_row], dim=-1).to(x.dtype)
    grid = grid.repeat_interleave(len(x) // len(grid), dim=0)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _blur(x: Tensor, sigma: Tensor) -> Tensor:
    """A 5×5 Gaussian per group of (G · B, 3, H, W); two pixels are lost on each side."""
    offset = torch.arange(-BLUR_RADIUS, BLUR_RADIUS + 1, device=x.device)
    weights = torch.exp(-0.5 * (offset / sigma[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True)).to(x.dtype)
    taps = [_wide(tap) for tap in weights.repeat_interleave(len(x) // len(sigma), dim=0).unbind(1)]
    height, width = x.shape[-2] - 2 * BLUR_RADIUS, x.shape[-1] - 2 * BLUR_RADIUS
    rows = _weighted([x[..., i : i + height, :] for i in range(len(taps))], taps)
    return _weighted([rows[..., i : i + width] for i in range(len(taps))], taps)


def _weighted(parts: list[Tensor], weights: list[Tensor]) -> Tensor:
    """Their sum; each pass adds one."""
    result = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        result.addcmul_(part, weight)
    return result
