"""Images as the body of a request."""

import io
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

Images = Tensor | NDArray[Any] | Sequence[Image.Image]

_NOT_IN_PNG = ("CMYK", "YCbCr", "HSV", "LAB", "F")


def encoded(images: Images) -> tuple[dict[str, str], str, bytes]:
    """Query, content type and body.

    Raises:
        ValueError: They are no images.
    """
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        images = (images.float() if images.is_floating_point() else images).numpy()
    if not isinstance(images, np.ndarray):
        return {}, *_form(images)
    if images.dtype != np.uint8:
        images = images.astype("<f4")
    query = {"shape": ",".join(map(str, images.shape)), "dtype": str(images.dtype)}
    return query, "application/octet-stream", images.tobytes()


def _form(pictures: Sequence[Image.Image]) -> tuple[str, bytes]:
    """A form with a PNG for each picture."""
    is_list = isinstance(pictures, Sequence) and len(pictures) > 0
    if not is_list or not all(isinstance(picture, Image.Image) for picture in pictures):
        raise ValueError("give a tensor, an array, or a list of at least one Pillow image")
    boundary = secrets.token_hex(16)
    body = io.BytesIO()
    for number, picture in enumerate(pictures):
        body.write(
            f'--{boundary}\r\nContent-Disposition: form-data; name="images"; '
            f'filename="{number}.png"\r\nContent-Type: image/png\r\n\r\n'.encode()
        )
        _as_png_has_them(picture).save(body, "PNG")
        body.write(b"\r\n")
    body.write(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", body.getvalue()


def _as_png_has_them(picture: Image.Image) -> Image.Image:
    """Colours of print, or of television, as the server would convert them."""
    return picture.convert("RGB") if picture.mode in _NOT_IN_PNG else picture
