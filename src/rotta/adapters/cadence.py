"""When to update: after every so many samples seen, wherever in a batch that falls."""

from collections.abc import Iterator


def cadence(seen: int, arriving: int, every: int) -> Iterator[tuple[slice, bool]]:
    """Cut a batch where updates are due.

    Args:
        seen: Samples before this batch.
        arriving: Samples in it.
        every: Samples between updates.

    Yields:
        A part of the batch, and whether an update is due after it.

    Example:
        >>> list(cadence(seen=60, arriving=10, every=64))
        [(slice(0, 4, None), True), (slice(4, 10, None), False)]
    """
    start = 0
    while start < arriving:
        stop = min(arriving, start + every - (seen + start) % every)
        yield slice(start, stop), (seen + stop) % every == 0
        start = stop
