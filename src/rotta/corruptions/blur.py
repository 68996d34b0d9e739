"""Blur: defocus, glass, motion, zoom. Lengths in pixels grow with the shorter side / 32."""

import math
from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.corruptions.draws import Draws
from rotta.corruptions.function import corruption, whole_levels
from rotta.corruptions.resample import (
    clipped_zoom,
    gaussian_taps,
    motion_blur_along,
    separable_filter,
    side_scale,
    weighted_sum,
    zoom_sizes,
)


@corruption
def defocus_blur(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Spread each pixel over a disk, softened by a 3×3 Gaussian (a lens out of focus).

    The radius grows with the side; the Gaussian, there against aliasing, stays.
    """
    radius, sigma = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))[severity - 1]
    radius *= side_scale(levels)
    reach = int(radius) + 1  # the disk's whole pixels, and one for the Gaussian
    padded = F.pad(levels, (reach, reach, reach, reach), mode="reflect")
    side_weight = math.exp(-0.5 / sigma**2)
    taps = [w / (1 + 2 * side_weight) for w in (side_weight, 1.0, side_weight)]
    disk = _disk_mean(padded, radius)
    height, width = levels.shape[-2:]
    rows = weighted_sum([disk[..., i : i + height, :] for i in range(3)], taps)
    return weighted_sum([rows[..., :, i : i + width] for i in range(3)], taps)


def _disk_mean(x: Tensor, radius: float) -> Tensor:
    """Mean over the pixels within ``radius``; the result lacks int(radius) pixels at each border.

    Each row of the disk is a difference of two running sums, so the cost grows with the radius,
    not its square. Sums of whole levels are exact in float32.
    """
    reach = int(radius)
    if reach == 0:
        return x
    height, width = x.shape[-2] - 2 * reach, x.shape[-1] - 2 * reach
    running = F.pad(x.cumsum(-1), (1, 0))
    total = torch.zeros_like(x[..., :height, :width])
    count = 0
    for row in range(-reach, reach + 1):
        half = math.isqrt(int(radius**2 - row**2))
        rows = running[..., reach + row : reach + row + height, :]
        first = reach - half
        total += rows[..., first + 2 * half + 1 : first + 2 * half + 1 + width]
        total -= rows[..., first : first + width]
        count += 2 * half + 1
    return total.div_(count)


@corruption
def glass_blur(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Blur, let each pixel copy a random near neighbour, blur again (frosted glass).

    σ and the largest shift d grow with the side. A shift is drawn from −d … d−1 on each axis. At
    d = 1 the published scan reads only pixels that it has not moved yet, which is the same as
    copying all at once; at larger d, all at once is our definition.
    """
    sigma, rounds = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
    scale = side_scale(levels)
    taps = gaussian_taps(sigma * scale, truncate=4.0)
    reach = max(1, round(scale))
    image = whole_levels(separable_filter(levels, taps))
    for _ in range(rounds):
        image = _copy_neighbours(image, reach, draws)
    return separable_filter(image, taps)


def _copy_neighbours(x: Tensor, reach: int, draws: Draws) -> Tensor:
    """Replace each inner pixel by a random one up to ``reach`` away; channels move together."""
    batch, channels, height, width = x.shape
    inner_height, inner_width = height - 2 * reach, width - 2 * reach
    word = draws.integers32(inner_height, inner_width)
    choices = 2 * reach
    down = ((word & 0xFFFF) * choices >> 16) - reach
    right = ((word >> 16 & 0xFFFF) * choices >> 16) - reach
    row = torch.arange(reach + 1, height - reach + 1, device=x.device)[:, None]
    column = torch.arange(reach + 1, width - reach + 1, device=x.device)
    source = ((row + down) * width + column + right).view(batch, 1, -1)
    moved = x.reshape(batch, channels, -1).gather(2, source.expand(-1, channels, -1))
    result = x.clone()
    result[..., reach + 1 : height - reach + 1, reach + 1 : width - reach + 1] = moved.view(
        batch, channels, inner_height, inner_width
    )
    return result


@corruption
def motion_blur(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Smear along a random direction within 45° of the horizontal; radius and σ grow with it."""
    radius, sigma = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))[severity - 1]
    scale = side_scale(levels)
    angle = draws.uniform(low=-45.0, high=45.0)
    return motion_blur_along(levels, angle, radius * scale, sigma * scale)


@corruption
def zoom_blur(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Average the image with enlargements of itself, 1 % apart (moving towards the scene)."""
    most = (6, 11, 15, 20, 25)[severity - 1]  # per cent
    exact = levels.double()
    total = exact * 2  # the image itself, and the enlargement by 1
    for factor, times in _distinct_zooms(levels.shape[-2], levels.shape[-1], most).items():
        total += clipped_zoom(exact, factor) * times
    return total.div_(most + 2)


def _distinct_zooms(height: int, width: int, most: int) -> dict[float, int]:
    """Factors 1.01, 1.02, … that give different pictures, and how many factors give each.

    Neighbouring factors often crop and enlarge to the same whole pixels; those need doing once.
    """
    # the step in floating point as it is when counted up from 1: a hair above 0.01, so that
    # 26 pixels · 1.25 round to 33 as in the published images, not to 32
    step = 1.01 - 1.0
    first: dict[tuple[tuple[int, int], tuple[int, int]], float] = {}
    times: Counter[float] = Counter()
    for percent in range(1, most + 1):
        factor = 1.0 + percent * step
        sizes = (zoom_sizes(height, factor), zoom_sizes(width, factor))
        times[first.setdefault(sizes, factor)] += 1
    return times
