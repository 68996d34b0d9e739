"""Whether an image shows anything: what a covered or broken camera sends is not to be learnt."""

import torch
from torch import Tensor

LEAST_LIKENESS = 0.1
"""Correlation of neighbouring pixels below which there is nothing but noise.

Of independent pixels it is 0 ± 0.02 at 3×32×32. Of the 150,000 images of CIFAR10-C, at the highest
severity, 35 are below, most of them under impulse noise; half of all are above 0.9.
"""
FEWEST_PAIRS = 1000
"""Of neighbours: in smaller images noise and pictures cannot be told apart."""

_ROUNDING = 1e-9  # of its square, a single colour may seem to vary; one pixel varies it more


def shows_something(x: Tensor) -> Tensor:
    """Which images are more than independent pixels or a single colour.

    ρ = 1 − E[(p − q)²] / (2·Var[p]) over horizontal neighbours p and q of one channel; numerator
    and denominator are summed over channels, whose means do not matter.

    Args:
        x: Images, (B, C, H, W), in whatever range.

    Returns:
        A mask, (B,), on the device of ``x``; all true for images that are too small to tell.

    Example:
        >>> noise, grey = torch.rand(3, 32, 32), torch.full((3, 32, 32), 0.5)
        >>> ramp = torch.linspace(0, 1, 32).expand(3, 32, 32)
        >>> shows_something(torch.stack([noise, grey, ramp])).tolist()
        [False, False, True]
    """
    _, channels, height, width = x.shape
    if channels * height * (width - 1) < FEWEST_PAIRS:
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    steps = (x[..., 1:] - x[..., :-1]).square_().mean(dim=(2, 3)).sum(dim=1)
    # not var(): on a CPU it takes ten times as long
    spread = (x - x.mean(dim=(2, 3), keepdim=True)).square_().mean(dim=(2, 3)).sum(dim=1)
    level = x.square().mean(dim=(1, 2, 3))
    return (steps < 2 * (1 - LEAST_LIKENESS) * spread) & (spread > _ROUNDING * level)
