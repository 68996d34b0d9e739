"""What the fifteen corruptions share: checking, numbers per image, slices, 8-bit results."""

import operator
from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Integral
from typing import Protocol

import torch
from torch import Tensor

from rotta.corruptions.draws import Draws, image_keys

SEVERITIES = (1, 2, 3, 4, 5)
SMALLEST_SIDE, LARGEST_SIDE = 8, 512

# Values per slice: a slice's intermediates should stay in a core's cache; a GPU wants them large.
_SLICE_ON_CPU, _SLICE_ON_GPU = 1 << 18, 1 << 25

_WHOLE_NUMBERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

Body = Callable[[Tensor, int, Draws], Tensor]
"""``body(levels, severity, draws)``: 8-bit levels as float32, (B, 3, H, W), to levels.

Results may be fractions and out of range; they are clipped and cut to whole levels afterwards."""


class Corruption(Protocol):
    """A pure function from images to corrupted images."""

    __name__: str

    def __call__(
        self, x: Tensor, severity: int, *, seed: int, index: Tensor | Sequence[int]
    ) -> Tensor:
        """Corrupt ``x``, (B, 3, H, W) in [0, 1]; ``index``, (B,), says which images these are."""
        ...


def corruption(body: Body) -> Corruption:
    """Make a public corruption out of its ``body``; its name is part of the random key."""

    @wraps(body)
    def function(x: Tensor, severity: int, *, seed: int, index: Tensor | Sequence[int]) -> Tensor:
        return apply(body, body.__name__, x, severity, seed=seed, index=index)

    return function


def apply(
    body: Body,
    name: str,
    x: Tensor,
    severity: int,
    *,
    seed: int,
    index: Tensor | Sequence[int],
) -> Tensor:
    """Run ``body`` over ``x`` slice by slice.

    Args:
        body: What happens to the levels.
        name: The corruption's name, part of the random key.
        x: Images, (B, 3, H, W), floating point in [0, 1].
        severity: 1 to 5.
        seed: Any integer.
        index: What identifies each image, (B,), whole numbers.

    Returns:
        A new tensor like ``x``, every value a multiple of 1/255.

    Raises:
        ValueError: an argument is not as said; the message names the remedy.
    """
    check_severity(severity)
    index = _checked_index(index, x)
    _check_images(x)
    severity, seed = int(severity), operator.index(seed)  # NumPy's numbers would overflow
    keys = image_keys(seed, index, name, severity)
    size = _SLICE_ON_CPU if x.device.type == "cpu" else _SLICE_ON_GPU
    step = max(1, size // x[0].numel()) if len(x) else 1
    result = torch.empty_like(x, memory_format=torch.contiguous_format)
    # a tensor, since CUDA multiplies by the reciprocal of a number: results are k / 255 exactly
    white = torch.tensor(255.0, device=x.device)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        for start in range(0, len(x), step):
            part = slice(start, start + step)
            levels = x[part].to(torch.float32).contiguous().mul(255.0).round_()
            result[part] = whole_levels(body(levels, severity, Draws(keys[part]))) / white
    return result


def whole_levels(levels: Tensor) -> Tensor:
    """Clip to 0…255 and cut the fraction off, as a cast to uint8 does.

    A thousandth is added first: a level that rounding left a hair below a whole number keeps it.
    """
    return levels.add(2.0**-10).clamp_(0.0, 255.0).floor_()


def check_severity(severity: object) -> None:
    """Raise ``ValueError`` unless ``severity`` is one of 1 to 5."""
    # any whole number will do, NumPy's too, but not 5.0 and not True
    whole = isinstance(severity, Integral) and not isinstance(severity, bool)
    if not whole or severity not in SEVERITIES:
        raise ValueError(f"severity must be 1, 2, 3, 4 or 5, not {severity!r}")


def _checked_index(index: Tensor | Sequence[int], x: Tensor) -> Tensor:
    try:
        given = torch.as_tensor(index)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"index must hold whole numbers below 2**63 ({error})") from error
    if given.numel() and given.dtype not in _WHOLE_NUMBERS:
        raise ValueError(f"index must hold whole numbers, not {given.dtype}")
    if x.ndim != 4 or given.shape != x.shape[:1]:
        raise ValueError(
            "x must have shape (B, 3, H, W) and index shape (B,), "
            f"not {tuple(x.shape)} and {tuple(given.shape)}"
        )
    return given.to(device=x.device, dtype=torch.int64)


def _check_images(x: Tensor) -> None:
    if not x.is_floating_point():
        raise ValueError(f"images must be floating point in [0, 1], not {x.dtype}: x.float() / 255")
    channels, height, width = x.shape[1:]
    small, large = min(height, width), max(height, width)
    if channels != 3:
        raise ValueError(f"images must have 3 channels (RGB), not {channels}: x.expand(-1, 3, …)")
    if small < SMALLEST_SIDE or large > LARGEST_SIDE:
        raise ValueError(
            f"images must be {SMALLEST_SIDE} to {LARGEST_SIDE} pixels a side, "
            f"not {height}×{width}: resize them first"
        )
    if x.numel():
        low, high = torch.aminmax(x)
        if not (low >= 0 and high <= 1):  # also true of NaN
            raise ValueError(
                f"images must lie in [0, 1], not [{low:.4g}, {high:.4g}]: divide 8-bit ones by 255"
            )
