"""Threads in which images are decoded and encoded, in turns."""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

from rotta.serve.shares import Shares

Result = TypeVar("Result")

_THREADS = 2  # each may hold one decoded image of max_pixels


class Decoders:
    """Two threads, for which no stream queues up more than one file at a time.

    So many large pictures of one stream do not hold up the others, and those of one stream are
    decoded in the order in which they came.

    Args:
        shares: Who has to rest; nobody if left out.

    Example:
        >>> decoders = Decoders()
        >>> asyncio.run(decoders.in_turn("camera", [lambda: "first", lambda: "second"]))
        ['first', 'second']
        >>> decoders.close()
    """

    def __init__(self, shares: Shares | None = None) -> None:
        self._shares = shares or Shares()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="decoder")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def do(self, work: Callable[[], Result]) -> Result:
        """Have something done there, and wait for it without holding up others."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def in_turn(self, stream: str, works: Iterable[Callable[[], Result]]) -> list[Result]:
        """The same of several things one after the other, after what a stream has asked before.

        They count as work for the stream, which may have to rest in between.
        """
        turn = self._turns.setdefault(stream, asyncio.Lock())
        async with turn:
            return [await self._charged(stream, work) for work in works]

    async def _charged(self, stream: str, work: Callable[[], Result]) -> Result:
        def timed() -> Result:
            start = time.monotonic()
            try:
                return work()
            finally:
                self._shares.charge({stream: 1}, time.monotonic() - start)

        await self._shares.rested(stream)
        return await self.do(timed)

    def close(self) -> None:
        """Finish what was begun."""
        self._threads.shutdown(wait=True)
