"""Whether a batch can be used: its form at once, its pixels while the device predicts already."""

import math

import torch
from torch import Tensor

from rotta.nn.to_host import ToHost

HALF = (torch.float16, torch.bfloat16)
_OVERSHOOT = 0.5  # what resizing may leave; far less than what mean and deviation do


def check_form(x: object, like: Tensor | None, shape: tuple[int, ...] | None) -> None:
    """Refuse what is no batch for a network; nothing here waits for the device.

    Args:
        x: Should be images, (B, C, H, W).
        like: A parameter of the network, if it has any: images have its dtype and device.
        shape: Of the images before, (C, H, W), if there were any.

    Raises:
        ValueError: Says what is wrong and what to do.
    """
    if not isinstance(x, Tensor) or x.ndim != 4:
        given = f"one of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"images must be a tensor of shape (B, C, H, W), not {given}")
    if x.numel() == 0:
        raise ValueError("the batch is empty: leave it out")
    if like is not None and like.dtype in HALF:
        raise ValueError(
            f"the method was converted to {like.dtype}, in which small updates are lost: "
            "convert it back with .float()"
        )
    if like is not None and x.device != like.device:
        raise ValueError(
            f"images are on {x.device}, the network on {like.device}: move one of them"
        )
    if not x.is_floating_point() or (like is not None and x.dtype != like.dtype):
        wanted = like.dtype if like is not None else torch.float32
        remedy = f"x.to({wanted})" if x.is_floating_point() else f"x.to({wanted}) / 255"
        raise ValueError(f"images must be {wanted} in [0, 1], not {x.dtype}: {remedy}")
    if shape is not None and x.shape[1:] != shape:
        raise ValueError(
            f"images have shape {tuple(x.shape[1:])}, those before had "
            f"{tuple(shape)}: resize them, or reset() and start anew"
        )


class PixelRange:
    """Lowest and highest pixel of a batch, on their way to the host.

    To ask a GPU for them is to wait until it has done all that was asked before. So they are
    asked for first and read after the prediction was asked for, which keeps the device busy.

    Args:
        x: Images, (B, C, H, W), not empty.

    Example:
        >>> PixelRange(torch.tensor([[[[0.25, 1.0]]]])).check(augmented_by=None)
    """

    def __init__(self, x: Tensor) -> None:
        self._both = ToHost(torch.stack(torch.aminmax(x)))  # NaN if there is one

    def check(self, augmented_by: str | None) -> None:
        """Refuse what no network can use, and what a method that augments images cannot.

        Args:
            augmented_by: The method, if it changes colours, which must be in [0, 1] then.

        Raises:
            ValueError: Says what is wrong and what to do.
        """
        lowest, highest = self._both.read().tolist()
        if not (math.isfinite(lowest) and math.isfinite(highest)):
            raise ValueError("the batch holds NaN or infinite pixels: leave those images out")
        if augmented_by and not (lowest >= -_OVERSHOOT and highest <= 1 + _OVERSHOOT):
            raise ValueError(
                f"images lie in {lowest:.3g} … {highest:.3g}, and {augmented_by} augments "
                "images in [0, 1]: scale them, and put the normalisation by mean and deviation "
                "into the network"
            )
