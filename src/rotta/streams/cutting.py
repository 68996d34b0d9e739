"""Cut the stays of a stream into batches, from any batch on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rotta.streams.plan import Stay


@dataclass(frozen=True, eq=False)
class Piece:
    """The part of a batch that comes from one stay: its arrivals start … stop - 1."""

    stay: Stay
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def samples(self) -> Stay:
        """The arrivals themselves."""
        return self.stay.take(slice(self.start, self.stop))


def cut(
    stays: Iterable[Stay], offset: int, batch_size: int, *, across: bool
) -> Iterator[list[Piece]]:
    """The pieces of each batch.

    Args:
        stays: Taken one by one, as far as batches are asked for.
        offset: How many arrivals of the first stay to leave out.
        batch_size: Samples per batch; the last may be short.
        across: Whether a batch may run from one stay into the next. If not, the last batch of
            each stay may be short.
    """
    pieces: list[Piece] = []
    room = batch_size
    for stay in stays:
        while offset < len(stay):
            piece = Piece(stay, offset, min(offset + room, len(stay)))
            pieces.append(piece)
            room -= len(piece)
            offset = piece.stop
            ends_here = not across and offset == len(stay)
            if room == 0 or ends_here:
                yield pieces
                pieces, room = [], batch_size
        offset = 0
    if pieces:
        yield pieces


def locate(
    batch_number: int, sizes: Iterable[int], batch_size: int, *, across: bool
) -> tuple[int, int]:
    """Where a batch begins: the number of the stay, and how many of its arrivals come before.

    Args:
        batch_number: Counted as :func:`cut` yields them. One past the last is the end, which is
            a place too.
        sizes: Samples in each stay; taken no further than needed.
        batch_size: As for :func:`cut`.
        across: As for :func:`cut`.

    Raises:
        ValueError: The stays end before that batch.

    Example:
        >>> locate(2, sizes=[6, 6], batch_size=4, across=True)
        (1, 2)
        >>> locate(2, sizes=[6, 6], batch_size=4, across=False)
        (1, 0)
    """
    if batch_number < 0:
        raise ValueError(f"batch_number must be 0 or more, got {batch_number}")
    offset = batch_number * batch_size
    stay_number = 0
    for size in sizes:
        if offset < size:
            return stay_number, offset
        # A stay that ends its last batch uses that batch up, however short.
        offset -= size if across else num_batches(size, batch_size) * batch_size
        stay_number += 1
    if offset >= batch_size:
        raise ValueError(f"there is no batch {batch_number}: the stream ends earlier")
    return stay_number, 0


def num_batches(num_samples: int, batch_size: int) -> int:
    """How many batches so many samples fill, a short last one included."""
    return -(-num_samples // batch_size)
