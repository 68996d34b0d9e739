"""Where requests of a stream that takes much wait before anything of them is read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from rotta.serve.refusals import Refusal
from rotta.serve.shares import Shares
from rotta.serve.waiting_line import WaitingLine, too_much_waiting

_PATIENCE = 10.0  # seconds; clients may not wait much longer for an answer
_HELD_BACK = 0.5  # seconds
_LONGEST_TURN = 1.0  # seconds; an upload that stops must not stop the stream


class Gate:
    """Lets requests of such a stream pass one by one, whenever it has rested; others at once.

    What waits here is not received, so that it takes neither time nor memory.

    Args:
        line: Where they wait later on; those here count as if they waited there.
        shares: Who takes how much.
    """

    def __init__(self, line: WaitingLine, shares: Shares) -> None:
        self._line = line
        self._shares = shares
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def passed(self, stream: str, images: int) -> AsyncIterator[None]:
        """Wait until a request may be received and decoded, as the block does.

        Args:
            stream: Which it is for.
            images: How many it has, if that is known; 1 or more.

        Raises:
            Refusal: See :meth:`WaitingLine.check_room`; or 429 if its turn does not come soon.
        """
        if stream not in self._turns and not self._shares.rest(stream):
            self._line.check_room(stream)
            yield
            return
        turn = self._turns.setdefault(stream, asyncio.Lock())
        with self._line.announced(stream, images):
            try:
                async with asyncio.timeout(_PATIENCE), AsyncExitStack() as held:
                    await held.enter_async_context(turn)
                    await self._shares.rested(stream)
                    held.pop_all()  # now it has its turn
            except TimeoutError as error:
                raise too_much_waiting(stream) from error
        async with _for_a_while(turn):
            yield


@asynccontextmanager
async def _for_a_while(turn: asyncio.Lock) -> AsyncIterator[None]:
    """Give a turn back when a block ends, or sooner if it runs long."""
    clock = asyncio.get_running_loop()
    over = clock.call_later(_LONGEST_TURN, turn.release)
    try:
        yield
    finally:
        if over.when() > clock.time():
            over.cancel()
            turn.release()


@asynccontextmanager
async def slow_to_say_wait() -> AsyncIterator[None]:
    """Hold 429 back for a moment, so that who does not wait as told cannot ask all the time."""
    try:
        yield
    except Refusal as refusal:
        if refusal.status == 429:
            await asyncio.sleep(_HELD_BACK)
        raise
