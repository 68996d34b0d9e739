"""A seed for each stream, the same in every process."""

import hashlib


def stream_seed(seed: int, name: str) -> int:
    """The seed of a stream in a pool: ``RoTTA(…, seed=stream_seed(seed, name))`` is its equal.

    Args:
        seed: The pool's.
        name: The stream's.

    Returns:
        0 … 2⁶³ − 1.

    Example:
        >>> stream_seed(0, "camera-1") == stream_seed(0, "camera-1")
        True
        >>> stream_seed(0, "camera-1") == stream_seed(0, "camera-2")
        False
    """
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
