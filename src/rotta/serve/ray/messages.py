"""Requests and answers on their way between machines, and how an application is asked there."""

import asyncio
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Asked:
    """A complete request."""

    method: str
    path: str
    query: bytes
    headers: Headers
    body: bytes


@dataclass(frozen=True)
class Answered:
    """A complete answer."""

    status: int
    headers: Headers
    body: bytes
    route: str = "other"
    """By which metrics count it."""

    @classmethod
    def of(cls, response: Response) -> "Answered":
        """A response that was not sent yet."""
        return cls(response.status_code, response.raw_headers, bytes(response.body))


async def ask_app(app: ASGIApp, asked: Asked) -> Answered:
    """What an application answers, without a network between.

    Example:
        >>> async def greet(scope, receive, send):
        ...     await send({"type": "http.response.start", "status": 200, "headers": []})
        ...     await send({"type": "http.response.body", "body": (await receive())["body"]})
        >>> asyncio.run(ask_app(greet, Asked("POST", "/", b"", [], b"hello"))).body
        b'hello'
    """
    scope = _scope(asked)
    unread = [{"type": "http.request", "body": asked.body, "more_body": False}]
    parts: list[Message] = []

    async def receive() -> Message:
        if not unread:
            await asyncio.Event().wait()  # nobody leaves here
        return unread.pop()

    async def send(message: Message) -> None:
        parts.append(message)

    await app(scope, receive, send)
    start, *rest = parts
    return Answered(
        start["status"],
        list(start["headers"]),
        b"".join(part.get("body", b"") for part in rest),
        getattr(scope.get("route"), "name", "other"),
    )


def _scope(asked: Asked) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http",
        "method": asked.method,
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "query_string": asked.query,
        "root_path": "",
        "headers": asked.headers,
        "client": None,
        "server": None,
    }
