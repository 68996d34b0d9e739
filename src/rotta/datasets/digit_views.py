"""Several views of each digit, slightly moved, so that a stream of few scans can be long.

The rule: view 0 is the scan as it is; every other one is turned by −10 … 10 whole degrees about
the centre, then shifted by −2 … 2 whole pixels each way. A hash of the scan's position and the
view's number draws them, and integers compute them, so all machines agree to the bit.
"""

import hashlib
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rotta.datasets.arrays import Pixels

MAX_DEGREES = 10
MAX_SHIFT = 2
_UNIT = 1 << 16  # of sines and cosines
_STEPS = 1 << 8  # positions between two pixels

Ints = NDArray[np.int64]


def moved_views(images: Pixels, views: int) -> Pixels:
    """All images as they are, then all as their view 1, then as their view 2, …

    Args:
        images: (N, S, S, channels), uint8; black beyond the border.
        views: V, at least 1.

    Returns:
        (V · N, S, S, channels).

    Example:
        >>> moved_views(np.zeros((5, 32, 32, 3), np.uint8), views=4).shape
        (20, 32, 32, 3)
    """
    moved = [_moved(images, _moves(len(images), view)) for view in range(1, views)]
    return np.concatenate([images, *moved])


def _moves(count: int, view: int) -> Ints:
    """Degrees, and pixels to the right and down, of each image: (N, 3)."""
    drawn = [hashlib.sha256(f"{position} {view}".encode()).digest() for position in range(count)]
    spread = (MAX_DEGREES, MAX_SHIFT, MAX_SHIFT)
    return np.array([[byte[i] % (2 * s + 1) - s for i, s in enumerate(spread)] for byte in drawn])


def _moved(images: Pixels, moves: Ints) -> Pixels:
    """Turn about the centre, then shift; bilinear."""
    side = images.shape[1]
    degrees, right, down = (column[:, None, None] for column in moves.T)
    cosine, sine = _rounded(math.cos, degrees), _rounded(math.sin, degrees)
    # twice the distance from the centre: whole numbers, whatever the side
    column = 2 * (np.arange(side) - right) - (side - 1)
    row = 2 * (np.arange(side)[:, None] - down) - (side - 1)
    top, low = np.divmod(_between_pixels(cosine * row - sine * column, side), _STEPS)
    left, far = np.divmod(_between_pixels(cosine * column + sine * row, side), _STEPS)
    low, far = low[..., None], far[..., None]
    upper = _at(images, top, left) * (_STEPS - far) + _at(images, top, left + 1) * far
    lower = _at(images, top + 1, left) * (_STEPS - far) + _at(images, top + 1, left + 1) * far
    blended: Ints = upper * (_STEPS - low) + lower * low
    return ((blended + _STEPS * _STEPS // 2) // (_STEPS * _STEPS)).astype(np.uint8)


def _rounded(wave: Callable[[float], float], degrees: Ints) -> Ints:
    """Sine or cosine in 1/_UNIT."""
    table = [round(wave(math.radians(d)) * _UNIT) for d in range(-MAX_DEGREES, MAX_DEGREES + 1)]
    return np.array(table)[degrees + MAX_DEGREES]


def _between_pixels(doubled: Ints, side: int) -> Ints:
    """Twice a distance from the centre, in 1/_UNIT pixels, to a position in 1/_STEPS pixels."""
    return (doubled + (side - 1) * _UNIT) * _STEPS // (2 * _UNIT)


def _at(images: Pixels, row: Ints, column: Ints) -> Ints:
    """Each image's pixels at its own rows and columns, (N, S, S, channels); black beyond."""
    side = images.shape[1]
    inside = (row >= 0) & (row < side) & (column >= 0) & (column < side)
    image = np.arange(len(images))[:, None, None]
    found = images[image, row.clip(0, side - 1), column.clip(0, side - 1)]
    return np.where(inside[..., None], found, 0).astype(np.int64)
