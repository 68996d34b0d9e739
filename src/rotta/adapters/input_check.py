"""Whether a batch can be used: its form at once, its pixels while the device predicts already."""

import math
import re
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from rotta.nn.to_host import ToHost

HALF = (torch.float16, torch.bfloat16)
REASONS = ("non-finite", "range", "shape", "dtype", "device", "empty")
"""Why input is bad: the first two concern single images, the others a batch as a whole."""
_ABOUT_FORM = re.compile(
    r"\b(channels?|sizes?|shapes?|dimensions?|elements|height|width)\b", re.IGNORECASE
)
_ABOUT_ELSE = re.compile(r"stride|contiguous|alloc|memory|buffer|workspace|grid|training", re.I)
"""What errors speak of that name a size, but not that of images."""
_LARGEST = 1e9  # larger numbers overflow where they are squared and summed up
_OVERSHOOT = 0.5  # what resizing may leave; far less than what mean and deviation do


class BadInputError(ValueError):
    """A batch that cannot be used, with one of :data:`REASONS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check_form(x: object, like: Tensor | None, shape: tuple[int, ...] | None) -> None:
    """Refuse what is no batch for a network; nothing here waits for the device.

    Args:
        x: Should be images, (B, C, H, W).
        like: A parameter of the network, if it has any: images have its dtype and device.
        shape: Of the images before, (C, H, W), if there were any.

    Raises:
        BadInputError: Says what is wrong and what to do.
        ValueError: It is not the batch that is wrong, but the method or the program.
    """
    if not isinstance(x, Tensor):
        raise ValueError(
            f"images must be a tensor of shape (B, C, H, W), not {type(x).__name__}: convert them "
            "before"
        )
    if like is not None and like.dtype in HALF:
        raise ValueError(
            f"the method was converted to {like.dtype}, in which small updates are lost: "
            "convert it back with .float()"
        )
    if x.is_nested:
        raise BadInputError("shape", "images must be one tensor, not nested ones: stack them")
    if x.ndim != 4:
        raise BadInputError(
            "shape", f"images must be of shape (B, C, H, W), not {tuple(x.shape)}: reshape them"
        )
    if x.layout != torch.strided:
        raise BadInputError("dtype", f"images must be dense, not {x.layout}: x.to_dense()")
    if x.numel() == 0:
        raise BadInputError("empty", "the batch is empty: leave it out")
    if like is not None and x.device != like.device:
        raise BadInputError(
            "device", f"images are on {x.device}, the network on {like.device}: move one of them"
        )
    if not x.is_floating_point() or (like is not None and x.dtype != like.dtype):
        wanted = like.dtype if like is not None else torch.float32
        remedy = f"x.to({wanted})" if x.is_floating_point() else f"x.to({wanted}) / 255"
        raise BadInputError("dtype", f"images must be {wanted} in [0, 1], not {x.dtype}: {remedy}")
    if shape is not None and x.shape[1:] != shape:
        raise BadInputError(
            "shape",
            f"images have shape {tuple(x.shape[1:])}, those before had "
            f"{tuple(shape)}: resize them, or reset() and start anew",
        )


def first_answer(infer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Predict a batch before any was learnt from: only the network knows what form it takes.

    Args:
        infer: Asks the network.
        x: Images, (B, C, H, W).

    Raises:
        BadInputError: It does not take these, as what it raised says.
    """
    try:
        return infer(x)
    except Exception as error:
        refused = form_refused(x, error)
        if refused is None:
            raise
        raise refused from error


def form_refused(x: Tensor, error: Exception) -> BadInputError | None:
    """What it means that the network raised at the first batch, whose form it alone can judge.

    Args:
        x: The batch.
        error: What was raised. Only PyTorch's error about sizes, and those that networks raise
            themselves: what is derived from them is about memory or the device.

    Returns:
        None where it is not about the form of images.

    Example:
        >>> grey = torch.rand(2, 1, 8, 8)
        >>> form_refused(grey, RuntimeError("expected 3 channels")).reason
        'shape'
        >>> form_refused(grey, RuntimeError("out of memory")) is None
        True
    """
    if type(error) not in (RuntimeError, ValueError, AssertionError):
        return None
    if not _ABOUT_FORM.search(str(error)) or _ABOUT_ELSE.search(str(error)):
        return None
    grey = " (grey ones: x.expand(-1, 3, -1, -1))" if x.shape[1] == 1 else ""
    return BadInputError(
        "shape",
        f"the network does not take images of shape {tuple(x.shape[1:])} ({error}): give them the "
        f"size and the channels of its training{grey}",
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
            BadInputError: Says what is wrong and what to do.
        """
        lowest, highest = self._both.read().tolist()
        if not (math.isfinite(lowest) and math.isfinite(highest)):
            raise BadInputError(
                "non-finite", "the batch holds NaN or infinite pixels: leave those images out"
            )
        if augmented_by and not (lowest >= -_OVERSHOOT and highest <= 1 + _OVERSHOOT):
            raise BadInputError(
                "range",
                f"images lie in {lowest:.3g} … {highest:.3g}, and {augmented_by} augments "
                "images in [0, 1]: scale them, and put the normalisation by mean and deviation "
                "into the network",
            )
        if max(-lowest, highest) > _LARGEST:
            raise BadInputError(
                "range",
                f"images lie in {lowest:.3g} … {highest:.3g}, and no picture does: look where they "
                "come from",
            )


class WarnOnce:
    """Warns where a whole batch is skipped, once for each reason: it may be so with every batch."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, bad: BadInputError) -> None:
        """Say why, if that is new."""
        if bad.reason not in self._known:
            self._known.add(bad.reason)
            warnings.warn(f"skipped: {bad}", stacklevel=6)  # where the method was called

    def of_pixels(self, x: Tensor, augmented_by: str | None) -> None:
        """The same of images, (B, C, H, W), of which none can be used."""
        try:
            PixelRange(x).check(augmented_by)
        except BadInputError as bad:
            self.of(bad)


def usable_images(x: Tensor, augmented: bool) -> tuple[Tensor, Tensor]:
    """Which images of a batch can be predicted, and which can be learnt from; asks the device.

    Args:
        x: Images, (B, C, H, W), not empty.
        augmented: Whether colours will be changed, so that they must be in [0, 1].

    Returns:
        Two masks, (B,), the second within the first.

    Example:
        >>> x = torch.tensor([0.5, 7.0, torch.nan]).view(3, 1, 1, 1)
        >>> [mask.tolist() for mask in usable_images(x, augmented=True)]
        [[True, True, False], [True, False, False]]
    """
    lowest, highest = torch.aminmax(x.flatten(1), dim=1)
    finite = lowest.isfinite() & highest.isfinite()
    least, most = (-_OVERSHOOT, 1 + _OVERSHOOT) if augmented else (-_LARGEST, _LARGEST)
    return finite, finite & (lowest >= least) & (highest <= most)


def unpredicted(x: Tensor, num_classes: int, like: Tensor | None) -> Tensor:
    """NaN logits for what could be no images at all: (B, num_classes), or (0, num_classes).

    Args:
        x: Images, (B, C, H, W); what has another number of axes has no rows.
        num_classes: C.
        like: Of the dtype and on the device of the network, if it has parameters.

    Example:
        >>> [len(unpredicted(x, 5, None)) for x in (torch.zeros(2, 3, 8, 8), torch.zeros(8, 8))]
        [2, 0]
    """
    rows = 0 if x.is_nested or x.ndim != 4 else len(x)
    like = torch.empty(0) if like is None else like.detach()
    return like.new_full((rows, num_classes), torch.nan)
