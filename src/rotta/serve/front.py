"""What every request passes first: it is timed, and a refusal reaches whoever still sends."""

import asyncio
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rotta.serve.metrics import Metrics

_DROPPED_BYTES = 256 << 20
_DROPPING_SECONDS = 5.0


class Front:
    """Counts answers, and reads on before a refusal.

    A client that is still sending does not listen: it would see a broken connection in place of
    the reason. So the rest of a refused body is received and dropped, within bounds.

    Args:
        app: What answers.
        metrics: What counts.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.monotonic()
        status = 500
        body = _Body(receive)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= 400 and not _waits_for_leave(scope):
                    await body.drop_rest()
            await send(message)

        try:
            await self._app(scope, body.receive, answer)
        finally:
            route = getattr(scope.get("route"), "name", "other")
            self._metrics.answered(route, status, time.monotonic() - start)


class _Body:
    """Knows whether all of a request was received."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._complete = not message.get("more_body", False)
        return message

    async def drop_rest(self) -> None:
        most = _DROPPED_BYTES
        try:
            async with asyncio.timeout(_DROPPING_SECONDS):
                while not self._complete and most > 0:
                    most -= len((await self.receive()).get("body", b""))
        except TimeoutError:
            return


def _waits_for_leave(scope: Scope) -> bool:
    """Whether the client sends nothing before it is told to (``Expect: 100-continue``)."""
    return any(name == b"expect" for name, _ in scope["headers"])
