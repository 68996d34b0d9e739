"""Weather: snow, frost, fog, brightness. Sizes of flakes and ice grow with the shorter side."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from rotta.corruptions.draws import Draws
from rotta.corruptions.function import apply, corruption, whole_levels
from rotta.corruptions.resample import clipped_zoom, motion_blur_along, side_scale
from rotta.corruptions.textures import Textures, load_textures


@corruption
def snow(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Whiten the scene and add flakes that fall in one direction.

    The zoom of the flakes and the length of their trail grow with the side, so a larger image
    shows the same flakes larger, not more of them.
    """
    mean, sigma, zoom, threshold, radius, blur_sigma, blend = (
        (0.10, 0.2, 1.00, 0.60, 8, 3, 0.95),
        (0.10, 0.2, 1.00, 0.50, 10, 4, 0.90),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.90),
        (0.25, 0.3, 2.25, 0.60, 12, 6, 0.85),
        (0.30, 0.3, 1.25, 0.65, 14, 12, 0.80),
    )[severity - 1]
    scale = side_scale(levels)
    flakes = draws.normal(1, *levels.shape[-2:]).mul_(sigma).add_(mean)
    flakes = clipped_zoom(flakes.double(), max(1.0, zoom * scale)).float()
    flakes = whole_levels(torch.where(flakes < threshold, 0.0, flakes * 255))
    angle = draws.uniform(low=-135.0, high=-45.0)
    flakes = motion_blur_along(flakes, angle, radius * scale, blur_sigma * scale)
    red, green, blue = levels.unbind(1)
    grey = red.mul(0.299).add_(green.mul(0.587)).add_(blue.mul(0.114)).unsqueeze(1)
    whitened = torch.maximum(levels, grey.mul_(1.5).add_(127.5))
    scene = levels.mul(blend).add_(whitened.mul_(1 - blend))
    return scene.add_(flakes).add_(flakes.flip(-1, -2))


def frost(
    x: Tensor,
    severity: int,
    *,
    seed: int,
    index: Tensor | Sequence[int],
    textures: Textures | None = None,
) -> Tensor:
    """Lay a random crop of a picture of ice over the image.

    The pictures are reduced to 0.2 × (shorter side / 32), so ice crystals keep their share of the
    image. ``textures`` are those of :func:`load_textures` unless given.
    """
    body = partial(_frost, textures=textures or load_textures())
    return apply(body, "frost", x, severity, seed=seed, index=index)


def _frost(levels: Tensor, severity: int, draws: Draws, textures: Textures) -> Tensor:
    weight, ice_weight = ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    ice = textures.reduced(0.2 * side_scale(levels), levels.device)
    height, width = levels.shape[-2:]
    picture = draws.below(torch.tensor(len(ice.widths), device=levels.device))
    tall, wide = ice.heights[picture], ice.widths[picture]
    top = draws.below((tall - height).clamp_(min=1))
    left = draws.below((wide - width).clamp_(min=1))
    # an elongated image may be longer than the reduced picture, which then repeats
    row = (top[:, None] + torch.arange(height, device=levels.device)) % tall[:, None]
    column = (left[:, None] + torch.arange(width, device=levels.device)) % wide[:, None]
    corner = ice.starts[picture]
    pixel = corner[:, None, None] + row[:, :, None] * wide[:, None, None]
    crop = ice.levels[:, pixel + column[:, None, :]].transpose(0, 1)
    return levels * weight + crop * ice_weight


@corruption
def fog(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Add a cloud made by the diamond-square rule, keeping the brightest value where it was.

    The cloud's grid is the next power of two, of which the image shows the upper left corner.
    """
    weight, decay = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))[severity - 1]
    height, width = levels.shape[-2:]
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = _diamond_square(side, decay, draws)[:, None, :height, :width]
    brightest = levels.amax((1, 2, 3), keepdim=True)
    haze = 255.0 * weight
    return (levels + cloud * haze) * (brightest / (brightest + haze))


def _diamond_square(side: int, decay: float, draws: Draws) -> Tensor:
    """Wrap-around fractal clouds in [0, 1], (B, side, side); side is a power of two."""

    def jittered(total: Tensor) -> Tensor:
        noise = draws.uniform(*total.shape[1:], low=-swell, high=swell)
        return total.mul(0.25).add_(noise.mul_(swell))

    cloud = draws.zeros(side, side)
    swell, step = 100.0, side
    while step >= 2:
        half = step // 2
        corners = cloud[:, ::step, ::step]
        pairs = corners + corners.roll(-1, 1)
        centres = jittered(pairs + pairs.roll(-1, 2))
        cloud[:, half::step, half::step] = centres
        upper = centres + centres.roll(1, 1) + (corners + corners.roll(-1, 2))
        cloud[:, ::step, half::step] = jittered(upper)
        left = centres + centres.roll(1, 2) + (corners + corners.roll(-1, 1))
        cloud[:, half::step, ::step] = jittered(left)
        step, swell = half, swell / decay
    cloud -= cloud.amin((1, 2), keepdim=True)
    return cloud / cloud.amax((1, 2), keepdim=True)


@corruption
def brightness(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Raise V of HSV; hue and saturation stay, so the three channels grow by one factor."""
    gain = 255 * (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    value = levels.amax(1, keepdim=True)
    raised = (value + gain).clamp_(max=255.0)
    return torch.where(value > 0, levels * (raised / value.clamp(min=1.0)), raised)
