"""Digital: contrast, elastic transform, pixelate, JPEG compression."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.corruptions.draws import Draws
from rotta.corruptions.function import corruption
from rotta.corruptions.jpeg import recompress
from rotta.corruptions.resample import gaussian_taps


@corruption
def contrast(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Pull every value towards the mean of its channel."""
    factor = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    # float64: sums of whole levels are exact, in whatever order they are added
    mean = levels.mean((2, 3), keepdim=True, dtype=torch.float64).to(torch.float32)
    return (levels - mean).mul_(factor).add_(mean)


@corruption
def elastic_transform(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Bend the image: a random affine map, then smooth random displacements.

    All three constants are shares of the shorter side. Severity 1 is the affine map alone.
    """
    alpha, sigma, affine = (
        (0.0, 0.0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    )[severity - 1]
    height, width = levels.shape[-2:]
    side = min(height, width)
    column, row = _random_affine(height, width, affine * side, draws)
    # borders: the affine map mirrors about the outermost pixel centres …
    grid = torch.stack([column * (2 / (width - 1)) - 1, row * (2 / (height - 1)) - 1], dim=-1)
    image = F.grid_sample(levels, grid, padding_mode="reflection", align_corners=True)
    if alpha == 0:
        return image
    shift = _smooth_displacements(height, width, sigma * side, draws).mul_(alpha * side)
    column = torch.arange(width, device=levels.device) + shift[:, 0]
    row = torch.arange(height, device=levels.device)[:, None] + shift[:, 1]
    # … the displacements about the outer edges of the outermost pixels
    grid = torch.stack([(2 * column + 1) / width - 1, (2 * row + 1) / height - 1], dim=-1)
    return F.grid_sample(image, grid, padding_mode="reflection", align_corners=False)


def _random_affine(height: int, width: int, reach: float, draws: Draws) -> tuple[Tensor, Tensor]:
    """Where each pixel comes from, as (columns, rows), each (B, H, W).

    Three corners p of a centred square, half a third of the side wide, move to q by up to
    ``reach`` per coordinate; the image follows. So pixel z comes from p1 + L (z − q1), where L
    takes the edges q0 − q1 and q1 − q2 back to (0, 2h) and (2h, 0).
    """
    half = float(min(height, width) // 3)
    centre = torch.tensor([width // 2, height // 2], dtype=torch.float32)
    corners = centre + half * torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    moved = draws.uniform(3, 2, low=-reach, high=reach)
    corners = corners.to(moved.device)
    moved += corners
    (ux, uy), (vx, vy) = (moved[:, :2] - moved[:, 1:]).permute(1, 2, 0)
    factor = 2 * half / (ux * vy - vx * uy)
    x = torch.arange(width, device=moved.device) - moved[:, 1, 0, None, None]
    y = torch.arange(height, device=moved.device)[:, None] - moved[:, 1, 1, None, None]
    a, b, c, d = (t[:, None, None] for t in (-uy * factor, ux * factor, vy * factor, -vx * factor))
    return corners[1, 0] + (a * x + b * y), corners[1, 1] + (c * x + d * y)


def _smooth_displacements(height: int, width: int, sigma: float, draws: Draws) -> Tensor:
    """Uniform noise in [−1, 1) under a Gaussian, for both axes, (B, 2, H, W), float32."""
    noise = draws.uniform(2, height, width, low=-1.0, high=1.0).to(torch.float64)
    down, right = (_smoothing(side, sigma).to(noise.device) for side in (height, width))
    # float64: the order in which a matrix product adds hardly ever reaches a float32 result
    return (down @ noise @ right.mT).to(torch.float32)


def _smoothing(side: int, sigma: float) -> Tensor:
    """A Gaussian filter, cut at 3σ, mirrored at the edges, as a matrix, (side, side), float64."""
    taps = gaussian_taps(sigma, truncate=3.0)
    matrix = np.zeros((side, side))
    for offset, weight in enumerate(taps, start=-(len(taps) // 2)):
        for target in range(side):
            place = (target + offset) % (2 * side)  # the mirrored image repeats after 2 · side
            matrix[target, min(place, 2 * side - 1 - place)] += weight
    return torch.from_numpy(matrix)


@corruption
def pixelate(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Reduce with a box filter and enlarge again."""
    share = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]
    height, width = levels.shape[-2:]
    small_height, small_width = int(height * share), int(width * share)
    # a box covers one or two pixels: products are exact, and halves round up as in Pillow
    across = _box_reduction(width, small_width).to(levels.device)
    down = _box_reduction(height, small_height).to(levels.device)
    reduced = (levels @ across.mT).add_(0.5).floor_()
    reduced = (down @ reduced).add_(0.5).floor_()
    row = _nearest(height, small_height).to(levels.device)
    column = _nearest(width, small_width).to(levels.device)
    return reduced.index_select(-2, row).index_select(-1, column)


def _box_reduction(large: int, small: int) -> Tensor:
    """Mean of the pixels whose centres lie in each box, as a matrix, (small, large)."""
    scale = large / small
    centre = (np.arange(small)[:, None] + 0.5) * scale
    distance = (np.arange(large) + 0.5 - centre) / scale
    inside = ((distance > -0.5) & (distance <= 0.5)).astype(np.float32)
    return torch.from_numpy(inside / inside.sum(axis=1, keepdims=True))


def _nearest(large: int, small: int) -> Tensor:
    """Which small pixel each large one shows, (large,)."""
    return torch.tensor([math.floor((i + 0.5) * small / large) for i in range(large)])


@corruption
def jpeg_compression(levels: Tensor, severity: int, _draws: Draws) -> Tensor:
    """Encode and decode as JPEG with 4:2:0 chroma. Blocks are 8 pixels at any image size."""
    return recompress(levels, quality=(80, 65, 58, 50, 40)[severity - 1])
