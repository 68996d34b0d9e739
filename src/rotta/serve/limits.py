"""How much a server takes at once."""

from dataclasses import dataclass

_LONGEST_WAIT = 3600.0


@dataclass(frozen=True)
class Limits:
    """Bounds on what is asked and on what waits; beyond them a request is refused.

    Raises:
        ValueError: One is below 1, or a request that is allowed could never be taken up.

    Example:
        >>> Limits(max_images=16).max_batch
        64
    """

    max_body: int = 32 << 20
    """Bytes of one request."""
    max_uploads: int = 256 << 20
    """Bytes of all requests that are being received or decoded."""
    max_images: int = 64
    """In one request."""
    max_pixels: int = 25_000_000
    """Of one image file, as its header says."""
    upload_seconds: float = 30.0
    """For a whole body to arrive."""
    queue: int = 2048
    """Images that wait."""
    queue_per_stream: int = 128
    """Images of one stream that wait."""
    max_batch: int = 64
    """Images in one pass through the network."""
    max_wait: float = 0.005
    """Seconds that a prediction waits for company."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "max_wait" and not value >= 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        if not 0 <= self.max_wait <= _LONGEST_WAIT:
            raise ValueError(
                f"max_wait must be between 0 and {_LONGEST_WAIT:g} seconds, not {self.max_wait:g}"
            )
        if self.max_images > min(self.queue, self.queue_per_stream):
            raise ValueError(
                f"a request may have {self.max_images} images, but only "
                f"{min(self.queue, self.queue_per_stream)} of a stream may wait: "
                "lower max_images, or raise queue and queue_per_stream"
            )
