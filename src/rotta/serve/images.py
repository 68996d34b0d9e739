"""From what was uploaded to images for the network, or to a refusal that says what to do."""

import io
import math

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rotta.serve.file_parts import takes_long
from rotta.serve.refusals import Refusal
from rotta.serve.served_model import ServedModel

FORMATS = ("PNG", "JPEG")
DTYPES: dict[str, np.dtype[np.uint8] | np.dtype[np.float32]] = {
    "uint8": np.dtype("u1"),
    "float32": np.dtype("<f4"),
}
"""Of raw tensors: 0 … 255, or little-endian in [0, 1]."""
_SIXTEEN_BITS = 65535
_LONGEST = 16  # times as long as the shorter side


def decode_file(data: bytes, place: int, model: ServedModel, max_pixels: int) -> Tensor:
    """Decode an image file.

    Args:
        data: PNG or JPEG.
        place: Which file of its request it is, for messages.
        model: Whose size it is brought to.
        max_pixels: That its header may announce; a larger one is not decoded.

    Returns:
        uint8, (3, side, side).

    Raises:
        Refusal: 413 for too many pixels or parts, 415 for another format, 422 for a damaged file.
    """
    if takes_long(data):
        raise Refusal(413, f"image {place} has far more parts than pictures have: save it anew")
    pixels = _decode(data, place, model, max_pixels)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def read_tensor(body: bytes, shape: str | None, dtype: str | None, model: ServedModel) -> Tensor:
    """A tensor from its bytes, in row-major order.

    Args:
        body: The numbers.
        shape: ``B,3,side,side``.
        dtype: A key of :data:`DTYPES`.
        model: Whose size they must have.

    Returns:
        uint8 or float32, (B, 3, side, side).

    Raises:
        Refusal: 422 for anything that does not fit.

    Example:
        >>> from rotta.serve.served_model import load_model
        >>> model = load_model("digits")
        >>> read_tensor(bytes(2 * 3 * 32 * 32), "2,3,32,32", "uint8", model).shape
        torch.Size([2, 3, 32, 32])
    """
    kind = DTYPES.get(dtype or "")
    if kind is None:
        raise Refusal(422, f"say the type of the numbers: ?dtype= one of {', '.join(DTYPES)}")
    sizes = _sizes(shape)
    side = model.side
    if len(sizes) != 4 or sizes[0] < 1 or sizes[1:] != [3, side, side]:
        raise Refusal(
            422,
            f"say the shape of the images: ?shape=B,3,{side},{side} with B of 1 or more; files are "
            "brought to that size, tensors are not",
        )
    wanted = math.prod(sizes) * kind.itemsize
    if len(body) != wanted:
        raise Refusal(422, f"{dtype} of shape {shape} is {wanted} bytes, not {len(body)}")
    numbers = np.frombuffer(body, kind).reshape(sizes)
    if kind.kind == "f" and not (numbers.min() >= 0 and numbers.max() <= 1):  # false for NaN too
        raise Refusal(422, "float32 pixels must be in [0, 1] and finite: scale or mend them")
    return torch.from_numpy(numbers.copy())


def count_images(shape: str | None) -> int:
    """B of ``B,3,H,W``, or 0 if it is something else."""
    sizes = _sizes(shape)
    return sizes[0] if len(sizes) == 4 else 0


def _sizes(shape: str | None) -> list[int]:
    """The numbers of ``1,3,32,32``; none if it is something else."""
    words = (shape or "").split(",")
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        return []
    return [int(word) for word in words]


def _decode(data: bytes, place: int, model: ServedModel, max_pixels: int) -> NDArray[np.uint8]:
    """Pixels, (side, side, 3)."""
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise _too_large(place, max_pixels) from error
    except Exception as error:  # whatever Pillow comes across in a header
        raise Refusal(
            415, f"image {place} is neither PNG nor JPEG, or its header is damaged: convert it"
        ) from error
    with image:
        if image.width * image.height > max_pixels:
            raise _too_large(place, max_pixels)
        try:
            return np.asarray(model.fit(_rgb(_centre_of_strip(image))))
        except Exception as error:  # whatever Pillow comes across further on
            raise Refusal(
                422, f"image {place} is damaged or cut off ({error}): send it again, or another"
            ) from error


def _too_large(place: int, max_pixels: int) -> Refusal:
    message = f"image {place} has more than {max_pixels:,} pixels: make it smaller"
    return Refusal(413, message)


def _centre_of_strip(image: Image.Image) -> Image.Image:
    """A very long image without its ends, which are cut off later, but enlarged before that."""
    longest = _LONGEST * min(image.size)
    width, height = (min(length, longest) for length in image.size)
    if (width, height) == image.size:
        return image
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _rgb(image: Image.Image) -> Image.Image:
    """8-bit RGB: 16 bits are scaled down, transparency is left out, as in training."""
    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int64).clip(0, _SIXTEEN_BITS)
        grey = (deep * 255 + _SIXTEEN_BITS // 2) // _SIXTEEN_BITS
        image = Image.fromarray(grey.astype(np.uint8))
    elif image.mode in ("P", "PA"):
        image = image.convert("RGBA")  # a palette may hold transparency of its own
    return image.convert("RGB")
