"""Requests over connections that stay open, sent again while the server is busy."""

import json
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from multiprocessing.connection import wait
from typing import Any
from urllib.parse import urlencode, urlsplit

from rotta.client.answers import RefusedError

_IDLE = 30.0  # seconds after which a connection may have been closed at the other end
_BUSY = (429, 503)


class Line:
    """To one server; each thread has a connection of its own.

    Args:
        url: Of the server.
        token: If it wants one.
        timeout: Seconds to wait for a connection or an answer.
        patience: Seconds over which a refused request is sent again.

    Raises:
        ValueError: The address cannot be used.
    """

    def __init__(self, url: str, token: str | None, timeout: float, patience: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is no address of a server: give one like http://127.0.0.1:80")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._patience = patience
        self._own = threading.local()

    def ask(
        self,
        method: str,
        path: str,
        query: dict[str, Any] | None = None,
        body: bytes | None = None,
        kind: str | None = None,
    ) -> Any:
        """The JSON that is answered; ``None`` if there is none.

        Raises:
            RefusedError: The server's reason.
            ConnectionError: There is no answer.
        """
        address = f"{self._path}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = self._headers if kind is None else {**self._headers, "Content-Type": kind}
        until = time.monotonic() + self._patience
        while True:
            response, data = self._send(method, address, body, headers)
            if response.status < 400:
                return json.loads(data) if data else None
            pause = _seconds(response.getheader("Retry-After"))
            if pause is None or response.status not in _BUSY or time.monotonic() + pause > until:
                raise RefusedError(response.status, _reason(data))
            time.sleep(pause)

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        connection: HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
        self._own.connection = None

    def _send(
        self, method: str, address: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        connection = self._connection()
        try:
            connection.request(method, address, body, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, HTTPException) as error:
            self.close()
            raise ConnectionError(
                f"no answer from {self._host}: {error or type(error).__name__}"
            ) from error
        self._own.used = time.monotonic()
        return response, data

    def _connection(self) -> HTTPConnection:
        connection: HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None or self._is_stale(connection):
            self.close()
            kind = HTTPSConnection if self._secure else HTTPConnection
            connection = kind(self._host, self._port, timeout=self._timeout)
            self._own.connection = connection
            self._own.used = time.monotonic()
        return connection

    def _is_stale(self, connection: HTTPConnection) -> bool:
        """Whether the other end has closed it, or may have: a server that was started again."""
        # no answer is awaited: what can be read now is the end
        ended = connection.sock is not None and bool(wait([connection.sock], timeout=0))
        return ended or time.monotonic() - self._own.used > _IDLE


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdecimal() else None


def _reason(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode(errors="replace") or "no reason was given"
