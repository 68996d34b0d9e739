"""Pictures that travel inside a page."""

import base64
import io
from pathlib import Path

_WIDTH = 1600  # sharp on a page of 1,100 pixels, and on most dense screens
_QUALITY = 80


def data_uri(picture: Path) -> str:
    """A picture as a ``data:`` address, scaled down and recompressed.

    Raises:
        ValueError: The file is no picture.
    """
    from PIL import Image  # slow to import

    try:
        with Image.open(picture) as image:
            small = image.convert("RGB")
    except OSError as error:
        raise ValueError(f"{picture} is no picture: remove it to report without") from error
    if small.width > _WIDTH:
        height = round(small.height * _WIDTH / small.width)
        small = small.resize((_WIDTH, height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=_QUALITY, method=6)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
