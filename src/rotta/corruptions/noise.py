"""Noise: Gaussian, shot, impulse.

On 8-bit images each of them is a memoryless channel: what a level becomes depends on that level
alone. So each is written as its exact table P(level out | level in), and sampled with Walker's
alias method: one random word and one look-up per value, in integers, hence the same on any device.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rotta.corruptions.draws import Draws
from rotta.corruptions.function import corruption

_LEVELS = 256
_FRACTION_BITS = 24

Channel = NDArray[np.float64]
"""P(level out | level in), (256, 256); rows sum to one."""


@corruption
def gaussian_noise(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Add normal noise, independent for each value (a sensor in low light)."""
    return _send(levels, draws, _alias_table("gaussian", severity, levels.device))


@corruption
def shot_noise(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Count photons: Poisson(c·x) / c (the discrete nature of light)."""
    return _send(levels, draws, _alias_table("shot", severity, levels.device))


@corruption
def impulse_noise(levels: Tensor, severity: int, draws: Draws) -> Tensor:
    """Salt and pepper, each channel value on its own (bit errors)."""
    return _send(levels, draws, _alias_table("impulse", severity, levels.device))


def gaussian_channel(severity: int) -> Channel:
    """floor(clip(level + 255·σ·z)) for standard normal z."""
    sigma = 255 * (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    level_in = torch.arange(_LEVELS, dtype=torch.float64)[:, None]
    edges = torch.arange(1, _LEVELS, dtype=torch.float64)
    below = torch.special.ndtr((edges - level_in) / sigma)  # P(out < edge)
    return np.diff(below.numpy(), axis=1, prepend=0.0, append=1.0)


def shot_channel(severity: int) -> Channel:
    """floor(255·min(k/c, 1)) for k from Poisson(c·level/255)."""
    photons = (500, 250, 100, 75, 50)[severity - 1]
    rate = torch.arange(_LEVELS, dtype=torch.float64)[:, None] * (photons / 255)
    count = torch.arange(photons, dtype=torch.float64)
    log_mass = torch.xlogy(count, rate) - rate - torch.lgamma(count + 1)
    mass = log_mass.exp().numpy()  # of 0 … c-1 photons; any more saturate
    channel = np.zeros((_LEVELS, _LEVELS))
    for k in range(photons):
        channel[:, k * 255 // photons] += mass[:, k]
    channel[:, 255] += np.maximum(0.0, 1.0 - mass.sum(axis=1))
    return channel


def impulse_channel(severity: int) -> Channel:
    """A share of the values becomes 0 or 255, half each."""
    amount = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    channel = np.eye(_LEVELS) * (1 - amount)
    channel[:, [0, 255]] += amount / 2
    return channel


_CHANNELS = {"gaussian": gaussian_channel, "shot": shot_channel, "impulse": impulse_channel}


def _send(levels: Tensor, draws: Draws, table: Tensor) -> Tensor:
    """Draw a level out for every level in."""
    word = draws.integers32(*levels.shape[1:])
    column = (word >> _FRACTION_BITS) & 0xFF
    fraction = word.bitwise_and_((1 << _FRACTION_BITS) - 1)
    cell = table.take((levels.to(torch.int32) * _LEVELS).add_(column).to(torch.int64))
    keep = fraction < ((cell >> 8) & 0xFFFFFF)
    return torch.where(keep, column, cell.bitwise_and_(0xFF)).to(torch.float32)


@lru_cache
def _alias_table(kind: str, severity: int, device: torch.device) -> Tensor:
    """Walker's alias table of a channel, (65536,), int32: threshold·256 + alias per cell.

    Cell (level in, column) yields the column if the 24-bit fraction is below the threshold,
    else the alias.
    """
    share = _CHANNELS[kind](severity) * _LEVELS  # what each column holds; 1 is a full one
    rows = np.arange(_LEVELS)
    alias = np.tile(rows, (_LEVELS, 1))
    threshold = np.ones((_LEVELS, _LEVELS))
    open_columns = np.ones((_LEVELS, _LEVELS), dtype=bool)
    for _ in range(_LEVELS - 1):  # in every row: fill the emptiest column up from the fullest
        poor = np.where(open_columns, share, np.inf).argmin(axis=1)
        rich = np.where(open_columns, share, -np.inf).argmax(axis=1)
        threshold[rows, poor] = np.minimum(share[rows, poor], 1.0)
        alias[rows, poor] = rich
        share[rows, rich] -= 1.0 - threshold[rows, poor]
        open_columns[rows, poor] = False
    steps = np.minimum(np.rint(threshold * 2**_FRACTION_BITS), 2**_FRACTION_BITS - 1)
    packed = (steps.astype(np.uint32) << 8) | alias.astype(np.uint32)
    return torch.from_numpy(packed.view(np.int32).reshape(-1)).to(device)
