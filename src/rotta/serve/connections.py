"""Connections whose requests must begin in time, and not with more than is sensible.

Bodies are bounded elsewhere. What comes before them arrives before anybody asks for a token.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD_SECONDS = 30.0
_HEAD_BYTES = 1 << 20  # the end of a body before it may count too, which is 256 KiB at most


class BoundedHttp(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, for heads that end within 30 seconds and a mebibyte."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._in_head = True
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there, and has so long to ask something."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._end_of_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or several; of a head no more is read than it may have."""
        while data and not self.transport.is_closing():
            piece = data[: _HEAD_BYTES - self._head_bytes] if self._in_head else data
            super().data_received(piece)
            data = data[len(piece) :]
            if self._in_head:
                self._head_bytes += len(piece)
                if self._head_bytes >= _HEAD_BYTES and not self.transport.is_closing():
                    problem = f"more than {_HEAD_BYTES} bytes before the body: send less"
                    self.send_400_response(problem)

    def on_message_begin(self) -> None:
        """The first line of another request."""
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        """The body follows."""
        self._end_of_head()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._in_head, self._head_bytes = True, 0
        if self._too_late is None:
            self._too_late = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._too_late = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_head()  # sent ahead, and not read before there is an answer
        else:
            self.transport.close()

    def _end_of_head(self) -> None:
        self._in_head = False
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
