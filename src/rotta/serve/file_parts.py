"""Of how many parts an image file is made, seen without decoding it.

A few pixels can take minutes: what a decoder does with a part costs far more than the bytes of it.
"""

import re

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_MOST_PARTS = 16384  # a large PNG has one for each 8 KiB, or 4
_MOST_SCANS = 64  # a progressive JPEG has about ten, and each goes over all of the image
_SCAN, _END = 0xDA, 0xD9
_AFTER_PIXELS = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # the marker of whatever comes next


def takes_long(data: bytes) -> bool:
    """Whether a PNG or a JPEG has so many parts that it was made to keep a server busy.

    Args:
        data: The file; what is damaged or of another format is not judged here.

    Example:
        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (8, 8)).save(file, "JPEG", progressive=True)
        >>> picture = file.getvalue()
        >>> takes_long(picture), takes_long(picture[:2] + b"\\xff\\xfe\\0\\2" * 20000 + picture[2:])
        (False, True)
    """
    if data.startswith(_PNG):
        return _takes_long_as_png(data)
    return data.startswith(_JPEG) and _takes_long_as_jpeg(data)


def _takes_long_as_png(data: bytes) -> bool:
    at = len(_PNG)
    for _ in range(_MOST_PARTS):
        if at + 8 > len(data) or data[at + 4 : at + 8] == b"IEND":
            return False
        at += 12 + int.from_bytes(data[at : at + 4])
    return True


def _takes_long_as_jpeg(data: bytes) -> bool:
    at, scans = len(_JPEG), 0
    for _ in range(_MOST_PARTS):
        if at + 4 > len(data):
            return False
        marker = data[at + 1]
        if data[at] != 0xFF or not 0xC0 <= marker <= 0xFE or 0xD0 <= marker <= 0xD8:
            at += 1  # filling, or something lost: decoders look on byte by byte
            continue
        if marker == _END:
            return False
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
        if marker == _SCAN:
            scans += 1
            found = _AFTER_PIXELS.search(data, at)
            if scans > _MOST_SCANS or found is None:
                return scans > _MOST_SCANS
            at = found.start()
    return True
