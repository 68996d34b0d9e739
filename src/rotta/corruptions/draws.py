"""Random numbers that belong to an image, not to a batch.

Each image has a 64-bit key made of (seed, index, corruption, severity); its n-th number is a hash
of key and n (SplitMix64 in counter mode). So an image gets the same draw alone, in any batch, in
any order, and, the hash being integer arithmetic, on any device.
"""

import math
import zlib
from functools import lru_cache

import torch
from torch import Tensor

_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


def image_keys(seed: int, index: Tensor, corruption: str, severity: int) -> Tensor:
    """One key per image.

    Args:
        seed: Any integer.
        index: What identifies each image, (B,), int64.
        corruption: Its name.
        severity: 1 to 5.

    Returns:
        Keys, (B,), int64, on the device of ``index``.
    """
    purpose = zlib.crc32(corruption.encode()) * 8 + severity
    # the seed's number is drawn on the host, so that nearby seeds give unrelated keys
    start = _mix(torch.tensor([_signed(seed)]).add_(_signed(_GAMMA))).item()
    return _mix(_mix(index + int(start)).add_(_signed(purpose * _GAMMA)))


class Draws:
    """The numbers of a batch of images, taken one after the other.

    Example:
        >>> together = Draws(image_keys(0, torch.tensor([3, 7]), "fog", 5)).uniform(2)
        >>> alone = Draws(image_keys(0, torch.tensor([7]), "fog", 5)).uniform(2)
        >>> torch.equal(together[1:], alone)
        True
    """

    def __init__(self, keys: Tensor) -> None:
        self._keys = keys
        self._used = 0

    def zeros(self, *shape: int) -> Tensor:
        """Nothing drawn yet: zeros for every image, (B, *shape), float32."""
        return torch.zeros(len(self._keys), *shape, device=self._keys.device)

    def integers32(self, *shape: int) -> Tensor:
        """Integers over the whole range of int32, (B, *shape)."""
        return self._words(torch.int32, *shape)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Uniform in [low, high), with 24 random bits, (B, *shape), float32."""
        top = self.integers32(*shape).bitwise_right_shift_(8)  # signed, 24 bits
        unit = top.to(torch.float32).mul_(2.0**-24).add_(0.5)
        return unit.mul_(high - low).add_(low)

    def below(self, bound: Tensor) -> Tensor:
        """One integer in [0, bound) per image; ``bound`` is (B,) or a scalar tensor, int64."""
        unit = self.integers32(1).squeeze(1).to(torch.int64) & 0xFFFFFFFF
        return (unit * bound) >> 32

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, (B, *shape), float32: one of 65,536 equally likely quantiles."""
        word = self._words(torch.int16, *shape).to(torch.int64).add_(1 << 15)
        return _normal_quantiles(word.device).take(word)

    def _words(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Random words of a smaller integer type, cut out of the 64-bit ones."""
        count = math.prod(shape)
        per_word = 8 // dtype.itemsize
        words = self._next(-(-count // per_word)).view(dtype)
        return words[:, :count].reshape(-1, *shape)

    def _next(self, count: int) -> Tensor:
        """The next ``count`` 64-bit words of every image, (B, count), int64."""
        counter = torch.arange(self._used, self._used + count, device=self._keys.device)
        self._used += count
        return _mix(self._keys[:, None] + counter.add_(1).mul_(_signed(_GAMMA)))


def _mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser, in place: every input bit reaches every output bit."""
    z ^= (z >> 30) & ((1 << 34) - 1)  # the mask makes the shift of a signed number logical
    z *= _signed(_MIX_1)
    z ^= (z >> 27) & ((1 << 37) - 1)
    z *= _signed(_MIX_2)
    z ^= (z >> 31) & ((1 << 33) - 1)
    return z


def _signed(value: int) -> int:
    """The int64 with the same low 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache
def _normal_quantiles(device: torch.device) -> Tensor:
    """Midpoint quantiles of the standard normal, rescaled to variance one, (65536,)."""
    levels = (torch.arange(1 << 16, dtype=torch.float64) + 0.5) / (1 << 16)
    quantiles: Tensor = torch.special.ndtri(levels)
    return (quantiles / quantiles.std(correction=0)).to(torch.float32).to(device)
