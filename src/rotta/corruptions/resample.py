"""Filters and zooms that several corruptions share.

Sums run over taps in a fixed order, elementwise, so that an image's result does not depend on the
batch it is in (a convolution or matrix product may pick another algorithm for another batch size).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

REFERENCE_SIDE = 32
"""The side, in pixels, for which the severity constants are stated."""


def side_scale(x: Tensor) -> float:
    """How much longer the shorter side of ``x``, (…, H, W), is than the reference."""
    return min(x.shape[-2:]) / REFERENCE_SIDE


def gaussian_taps(sigma: float, truncate: float) -> list[float]:
    """Weights at −r … r of a normalised Gaussian that is cut at ``truncate`` · sigma."""
    radius = int(truncate * sigma + 0.5)
    weights = [math.exp(-0.5 * (i / sigma) ** 2) for i in range(-radius, radius + 1)]
    return [w / sum(weights) for w in weights]


def separable_filter(x: Tensor, taps: list[float]) -> Tensor:
    """Filter rows, then columns, with the same odd number of taps; edge pixels are repeated."""
    radius = len(taps) // 2
    if radius == 0:
        return x
    padded = F.pad(x, (radius, radius, radius, radius), mode="replicate")
    height, width = x.shape[-2:]
    rows = weighted_sum([padded[..., i : i + height, :] for i in range(len(taps))], taps)
    return weighted_sum([rows[..., :, i : i + width] for i in range(len(taps))], taps)


def weighted_sum(parts: list[Tensor], weights: list[float]) -> Tensor:
    """Σ weight · part, multiplied and added one by one."""
    total = parts[0] * weights[0]
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total += part * weight
    return total


def clipped_zoom(x: Tensor, factor: float) -> Tensor:
    """Enlarge the centre of ``x``, (B, C, H, W), bilinearly, corners aligned; the size stays.

    Give float64: the framework's interpolation rounds differently with another number of threads,
    which in float32 would reach a level now and then.
    """
    height, width = x.shape[-2:]
    (rows, grown_rows), (columns, grown_columns) = (
        zoom_sizes(side, factor) for side in (height, width)
    )
    top, left = (height - rows) // 2, (width - columns) // 2
    centre = x[..., top : top + rows, left : left + columns]
    size = (grown_rows, grown_columns)
    grown = F.interpolate(centre, size=size, mode="bilinear", align_corners=True)
    top, left = (grown_rows - height) // 2, (grown_columns - width) // 2
    return grown[..., top : top + height, left : left + width]


def zoom_sizes(side: int, factor: float) -> tuple[int, int]:
    """How many pixels of a side a zoom keeps, and to how many it enlarges them."""
    kept = math.ceil(side / factor)
    return kept, round(kept * factor)


def motion_blur_along(x: Tensor, angle: Tensor, radius: float, sigma: float) -> Tensor:
    """Smear each image along its own direction, like a one-sided, falling trail of itself.

    Args:
        x: Levels, (B, C, H, W).
        angle: Degrees, (B,), clockwise from the right.
        radius: Half the length of the trail in pixels; 2·ceil(radius) + 1 taps.
        sigma: How fast the weights exp(−i²/2σ²) fall.

    Returns:
        Whole levels, the fraction cut off, (B, C, H, W). Offsets are whole pixels; beyond the
        border the edge pixel is repeated.
    """
    batch, channels, height, width = x.shape
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * math.ceil(radius) + 1)]
    weights = [w / sum(weights) for w in weights if w > 1e-6]  # the rest is under 1/1000 level
    radians = torch.deg2rad(angle.to(torch.float64))[:, None]
    row = torch.arange(height, device=x.device)
    column = torch.arange(width, device=x.device)
    flat = x.reshape(batch, channels, -1)
    total = torch.zeros_like(flat)
    for i, weight in enumerate(weights):
        down = torch.ceil(i * torch.sin(radians) - 0.5).to(torch.int64)
        right = torch.ceil(i * torch.cos(radians) - 0.5).to(torch.int64)
        from_row = (row + down).clamp_(0, height - 1).mul_(width)
        from_column = (column + right).clamp_(0, width - 1)
        source = (from_row[:, :, None] + from_column[:, None, :]).view(batch, 1, -1)
        total += flat.gather(2, source.expand(-1, channels, -1)).mul_(weight)
    return total.view_as(x).add_(2.0**-10).floor_()
