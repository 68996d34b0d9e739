"""Files that are small to send and long to decode; and those that only look like it."""

import io
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from rotta.serve.file_parts import takes_long
from rotta.serve.images import decode_file
from rotta.serve.refusals import Refusal
from rotta.serve.served_model import load_model


def file_of(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


NOISE = Image.effect_noise((256, 256), 90)
PNG, JPEG = file_of(NOISE, "PNG"), file_of(NOISE, "JPEG")
PROGRESSIVE = file_of(NOISE, "JPEG", progressive=True)


def with_scans(more: int) -> bytes:
    """The last scan again and again: each costs a pass over all pixels."""
    start, end = PROGRESSIVE.rindex(b"\xff\xda"), PROGRESSIVE.rindex(b"\xff\xd9")
    return PROGRESSIVE[:end] + PROGRESSIVE[start:end] * more + PROGRESSIVE[end:]


def png_with(parts: int, kind: bytes = b"abCd") -> bytes:
    part = struct.pack(">I", 0) + kind + struct.pack(">I", zlib.crc32(kind))
    return PNG[:33] + part * parts + PNG[33:]


def jpeg_with(parts: int, part: bytes) -> bytes:
    return JPEG[:2] + part * parts + JPEG[2:]


MADE_TO_TAKE_LONG = {
    "scans": with_scans(1000),
    "chunks": png_with(100_000),
    "empty chunks of pixels": png_with(100_000, b"IDAT"),
    "comments": jpeg_with(100_000, b"\xff\xfe\0\2"),
    "filling": jpeg_with(100_000, b"\xff"),
    "restarts": jpeg_with(100_000, b"\xff\xd0"),
}


@pytest.mark.parametrize("name", MADE_TO_TAKE_LONG)
def test_what_was_made_to_take_long_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="image 3 has far more parts") as refused:
        decode_file(MADE_TO_TAKE_LONG[name], 3, load_model("digits"), 10**6)
    assert refused.value.status == 413


def test_pictures_as_cameras_and_programs_write_them_are_taken() -> None:
    colours = Image.merge("RGB", [NOISE] * 3)
    thumbnail = b"\xff\xe1" + struct.pack(">H", 2 + 4000) + b"\xff\xda" * 2000  # hides scans
    files = [
        PNG,
        JPEG,
        PROGRESSIVE,
        file_of(colours, "JPEG", progressive=True, optimize=True),
        file_of(colours, "JPEG", restart_marker_blocks=1),
        jpeg_with(1, thumbnail),
        JPEG + b"\xff\xda\0\4" * 1000,  # a film after the picture
        with_scans(20),
        png_with(1000),
    ]
    for data in files:
        assert not takes_long(data)
        Image.open(io.BytesIO(data)).load()


def test_what_is_cut_off_or_nonsense_is_left_to_the_decoder() -> None:
    for whole in (PNG, PROGRESSIVE):
        for end in (*range(1, 700, 7), len(whole) // 2):
            assert not takes_long(whole[:end])
    rng = np.random.default_rng(0)
    for start in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8"):
        for _ in range(50):
            takes_long(start + rng.bytes(300))
    assert not takes_long(b"")
    assert re.search(rb"\xff\xda", PROGRESSIVE)
