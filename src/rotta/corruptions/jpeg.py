"""What baseline JPEG does to an image, without writing a file, for a whole batch at once.

Follows ITU-T T.81 (tables of annex K) and the arithmetic that JPEG libraries share: 16-bit fixed
point colour conversion, 4:2:0 chroma by 2×2 means, the accurate integer cosine transform, and
triangle-filtered chroma on the way back. So the result is that of a library, to the last bit.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

# Annex K.1 and K.2, row by row: quantisation steps at quality 50.
_LUMA_STEPS = """
16 11 10 16 24 40 51 61  12 12 14 19 26 58 60 55  14 13 16 24 40 57 69 56  14 17 22 29 51 87 80 62
18 22 37 56 68 109 103 77  24 35 55 64 81 104 113 92  49 64 78 87 103 121 120 101
72 92 95 98 112 100 103 99"""
_CHROMA_STEPS = """
17 18 24 47 99 99 99 99  18 21 26 66 99 99 99 99  24 26 56 99 99 99 99 99  47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99  99 99 99 99 99 99 99 99  99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99"""

_HALF = 1 << 15  # one half in 16-bit fixed point


def recompress(levels: Tensor, quality: int) -> Tensor:
    """Encode and decode ``levels``, (B, 3, H, W), whole numbers in 0…255 as float32."""
    height, width = levels.shape[-2:]
    # blocks are filled by repeating edges: columns before chroma is halved, rows after it
    rgb = F.pad(levels, (0, -width % 16, 0, height % 2), mode="replicate").to(torch.int32)
    luma, blue, red = _to_ycc(rgb)
    luma = _through_blocks(_fill_rows(luma.unsqueeze(1)), _steps("luma", quality)).squeeze(1)
    chroma = _fill_rows(_halve(torch.stack([blue, red], 1)))
    chroma = _through_blocks(chroma, _steps("chroma", quality))
    # only samples that belong to the image take part in the enlargement
    chroma = _enlarge(chroma[..., : (height + 1) // 2, : (width + 1) // 2])
    blue, red = chroma[..., :height, :width].unbind(1)
    return _to_rgb(luma[..., :height, :width], blue, red)


def _fill_rows(plane: Tensor) -> Tensor:
    """Repeat the last row until there are whole blocks of 8."""
    missing = -plane.shape[-2] % 8
    return torch.cat([plane, plane[..., -1:, :].expand(*plane.shape[:-2], missing, -1)], dim=-2)


def _fixed(value: float) -> int:
    return int(value * 65536 + 0.5)


def _to_ycc(rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """RGB (B, 3, H, W) to Y, Cb, Cr, each (B, H, W), int32 in 0…255."""
    r, g, b = rgb.unbind(1)
    offset = (128 << 16) + _HALF - 1
    luma = r * _fixed(0.299) + g * _fixed(0.587) + b * _fixed(0.114) + _HALF
    blue = b * _HALF - r * _fixed(0.168735892) - g * _fixed(0.331264108) + offset
    red = r * _HALF - g * _fixed(0.418687589) - b * _fixed(0.081312411) + offset
    return luma >> 16, blue >> 16, red >> 16


def _to_rgb(luma: Tensor, blue: Tensor, red: Tensor) -> Tensor:
    """Y, Cb, Cr, each (B, H, W), int32, to RGB (B, 3, H, W), float32."""
    blue, red = blue - 128, red - 128
    r = luma + ((red * _fixed(1.402) + _HALF) >> 16)
    g = luma + ((_HALF - blue * _fixed(0.34414) - red * _fixed(0.71414)) >> 16)
    b = luma + ((blue * _fixed(1.772) + _HALF) >> 16)
    return torch.stack([r, g, b], dim=1).clamp_(0, 255).to(torch.float32)


def _halve(chroma: Tensor) -> Tensor:
    """2×2 means; exact halves go down and up in turn, so that nothing drifts."""
    total = (
        chroma[..., ::2, ::2]
        + chroma[..., 1::2, ::2]
        + chroma[..., ::2, 1::2]
        + chroma[..., 1::2, 1::2]
    )
    bias = 1 + torch.arange(total.shape[-1], device=total.device, dtype=torch.int32) % 2
    return (total + bias) >> 2


def _enlarge(chroma: Tensor) -> Tensor:
    """Twice the size by a triangle filter: ¾ of the nearer sample, ¼ of the farther, per axis."""
    rows = _interleave(chroma, dim=-2)
    columns = _interleave(rows, dim=-1)
    bias = 8 - torch.arange(columns.shape[-1], device=chroma.device, dtype=torch.int32) % 2
    return (columns + bias) >> 4


def _interleave(x: Tensor, dim: int) -> Tensor:
    """4 × the enlarged ``x`` along ``dim``; beyond the edge the edge sample is repeated."""
    size = x.shape[dim]
    before = torch.cat([x.narrow(dim, 0, 1), x.narrow(dim, 0, size - 1)], dim)
    after = torch.cat([x.narrow(dim, 1, size - 1), x.narrow(dim, size - 1, 1)], dim)
    pair = torch.stack([3 * x + before, 3 * x + after], dim=x.ndim + dim + 1)
    return pair.flatten(x.ndim + dim, x.ndim + dim + 1)


def _through_blocks(plane: Tensor, steps: tuple[int, ...]) -> Tensor:
    """Cosine transform, quantise and back, in blocks of 8×8; ``plane`` is (…, H, W), int32."""
    *lead, height, width = plane.shape
    blocks = plane.view(-1, height // 8, 8, width // 8, 8).transpose(2, 3).reshape(-1, 8, 8)
    transform = _cosine_transform(plane.device)
    # rows, then columns; two bits more are kept between the passes. Results are 8 × the cosine sums
    rows = _shift((blocks - 128).to(torch.float64) @ transform.mT, 11)
    columns = _shift(rows.mT @ transform.mT, 15).mT
    step = torch.tensor(steps, dtype=torch.float64, device=plane.device).view(8, 8)
    size = columns.abs().add_(4 * step).div_(8 * step).floor_()  # halves go away from zero
    quantised = size.mul_(step).copysign_(columns)
    columns = _shift(quantised.mT @ transform, 11).mT
    restored = _shift(columns @ transform, 18).add_(128).clamp_(0, 255).to(torch.int32)
    blocks = restored.view(-1, height // 8, width // 8, 8, 8).transpose(2, 3)
    return blocks.reshape(*lead, height, width)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Divide whole numbers by 2^bits, rounding to the nearest, halves up; in place."""
    return x.add_(2.0 ** (bits - 1)).mul_(2.0**-bits).floor_()


@lru_cache
def _cosine_transform(device: torch.device) -> Tensor:
    """The eight-point cosine transform · √8 in 13-bit fixed point, (8, 8), float64.

    Libraries compute it by Loeffler, Ligtenberg and Moschytz's scheme with twelve constants; what
    each input contributes to each output is this table of sums of those constants. Products of
    whole numbers are exact in float64, so the result is theirs to the last bit, on any device.
    """
    even = [[8192, 8192, 8192, 8192], [10703, 4433, -4433, -10703]]
    even += [[8192, -8192, -8192, 8192], [4433, -10704, 10704, -4433]]
    odd = [[11363, 9633, 6437, 2260], [9633, -2259, -11362, -6436]]
    odd += [[6437, -11362, 2261, 9633], [2260, -6436, 9633, -11363]]
    half = torch.tensor([even, odd], dtype=torch.float64, device=device)
    # an even function of the position for even rows, an odd one for odd rows
    whole = torch.stack(
        [torch.cat([half[0], half[0].flip(1)], 1), torch.cat([half[1], -half[1].flip(1)], 1)], dim=1
    )
    return whole.reshape(8, 8)


@lru_cache
def _steps(kind: str, quality: int) -> tuple[int, ...]:
    """The 64 quantisation steps for a quality of 1 to 100."""
    table = _LUMA_STEPS if kind == "luma" else _CHROMA_STEPS
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(min(255, max(1, (int(s) * percent + 50) // 100)) for s in table.split())
