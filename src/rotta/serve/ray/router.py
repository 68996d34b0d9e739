"""Which replica holds which stream."""

import itertools
import threading
from dataclasses import dataclass
from typing import Any

from rotta.serve.refusals import Refusal

_CLAIMS = 32  # bits of an epoch that count claims; those above count generations


@dataclass(eq=False)
class Member:
    """A replica, as others know it."""

    actor: Any
    number: int
    """Its own: one that is started in place of another has a new one."""
    host: str = ""
    """The name of its machine, once it is ready, as the two that follow."""
    node: str = ""
    """By which Ray knows the machine."""
    process: int = 0
    gone: bool = False
    """Whether it counts as dead; it is never asked again."""


class Router:
    """A table: a stream stays with the replica that got it first, as long as that lives.

    A table, because nothing moves when a replica comes: by hashing, streams would have to be handed
    over by one that lives, in the middle of their work. A new stream, and one whose replica is
    gone, goes to the replica with the fewest, with an epoch that is newer than all before.

    Args:
        generation: Of the service.

    Example:
        >>> router = Router(generation=1)
        >>> first, second = Member(None, 1), Member(None, 2)
        >>> router.add(first)
        >>> router.add(second)
        >>> [router.holder(stream)[0].number for stream in ("a", "b", "a")]
        [1, 2, 1]
        >>> router.drop(first)
        >>> router.holder("a")[0].number
        2
    """

    def __init__(self, generation: int) -> None:
        self._lock = threading.Lock()
        self._epochs = itertools.count((generation << _CLAIMS) + 1)
        self._streams: dict[Member, set[str]] = {}
        self._holders: dict[str, tuple[Member, int]] = {}
        self._turn = itertools.count()
        self._closed = False

    @property
    def members(self) -> list[Member]:
        """The replicas that live."""
        with self._lock:
            return list(self._streams)

    @property
    def streams(self) -> set[str]:
        """Those that some replica holds."""
        with self._lock:
            return set(self._holders)

    @property
    def closed(self) -> bool:
        """Whether another server has taken over."""
        return self._closed

    def add(self, member: Member) -> None:
        """Let a replica have streams."""
        with self._lock:
            self._streams[member] = set()

    def drop(self, member: Member) -> None:
        """Let others have the streams of one that is gone; once is enough."""
        with self._lock:
            member.gone = True
            for stream in self._streams.pop(member, ()):
                del self._holders[stream]

    def close(self) -> None:
        """Give out nothing more."""
        self._closed = True

    def holder(self, stream: str) -> tuple[Member, int]:
        """Who holds a stream, and with which epoch.

        Raises:
            Refusal: Nobody can.
        """
        with self._lock:
            self._check()
            if stream not in self._holders:
                member = min(self._streams, key=lambda each: len(self._streams[each]))
                self._streams[member].add(stream)
                self._holders[stream] = member, next(self._epochs)
            return self._holders[stream]

    def any(self) -> Member:
        """For what every replica knows: they take turns.

        Raises:
            Refusal: None is there.
        """
        with self._lock:
            self._check()
            return list(self._streams)[next(self._turn) % len(self._streams)]

    def _check(self) -> None:
        if self._closed:
            raise Refusal(503, "another server has taken over the store: ask that one")
        if not self._streams:
            raise Refusal(503, "no replica is running just now: send this again later", 2)
