"""The augmentation of ordinary training: shifted crops and mirror images, a batch at a time."""

import torch
import torch.nn.functional as F
from torch import Tensor


def random_crops(x: Tensor, generator: torch.Generator, *, mirror: bool) -> Tensor:
    """Shift each image by up to an eighth of its side, zeros coming in, and mirror half of them.

    Args:
        x: Images, (B, C, H, W), on any device.
        generator: On the CPU, so that the same seed gives the same crops on every device.
        mirror: Whether images may be mirrored left to right.

    Returns:
        The crops, (B, C, H, W).

    Example:
        >>> x = torch.ones(4, 3, 16, 16)
        >>> random_crops(x, torch.Generator().manual_seed(0), mirror=True).shape
        torch.Size([4, 3, 16, 16])
    """
    batch, _, height, width = x.shape
    rows = _window(batch, height, generator)
    columns = _window(batch, width, generator)
    if mirror:
        mirrored = torch.rand(batch, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    padded = F.pad(x, (width // 8, width // 8, height // 8, height // 8))
    images = torch.arange(batch, device=x.device)[:, None, None]
    rows_bhw = rows.to(x.device)[:, :, None]
    columns_bhw = columns.to(x.device)[:, None, :]
    return padded.permute(0, 2, 3, 1)[images, rows_bhw, columns_bhw].permute(0, 3, 1, 2)


def _window(batch: int, side: int, generator: torch.Generator) -> Tensor:
    """For each image the ``side`` neighbouring positions to take out of the padded side."""
    start = torch.randint(0, 2 * (side // 8) + 1, (batch, 1), generator=generator)
    return start + torch.arange(side)
