"""A service on the network."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import uvicorn
from starlette.types import ASGIApp

from rotta.serve.access import check_host
from rotta.serve.connections import BoundedHttp
from rotta.serve.limits import Limits
from rotta.serve.service import Service  # noqa: F401 (part of what rotta.serve offers)
from rotta.serve.uploads import Uploads

_WAITING_CONNECTIONS = 2048
_LAST_UPLOADS = 2.0  # seconds; who ends a server does not wait for long until all is saved
_KEEP_ALIVE = 75  # seconds that a connection may be idle


class Servable(Protocol):
    """What can be put on the network: a service here, or one on a cluster."""

    @property
    def limits(self) -> Limits:
        """On what is asked and on what waits."""

    @property
    def uploads(self) -> Uploads:
        """What is being received."""

    def app(self) -> ASGIApp:
        """What answers requests, once it was started."""

    def start(self) -> None:
        """Begin to take work."""

    def stop(self) -> bool:
        """Do what was asked, save all; whether all could be saved."""


def run(
    service: Servable, sock: socket.socket, ready: Callable[[str], None] = lambda _: None
) -> bool:
    """Serve until SIGTERM or SIGINT; then finish what was taken, learn, and save all.

    Args:
        service: What to serve.
        sock: Where to listen, of :func:`listen`.
        ready: Is called with the address, once it can be asked.

    Returns:
        Whether all streams could be saved.
    """
    leave_a_core()
    told_to_end = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            # also raised again by uvicorn, when all is done
            signal.signal(number, lambda *_: told_to_end.set())
    service.start()
    try:
        _Server(service, lambda: ready(_address(sock)), told_to_end).run(sockets=[sock])
    finally:
        saved = service.stop()
    return saved


def leave_a_core() -> None:
    """Compute with one thread less than the machine has cores, unless told by OMP_NUM_THREADS.

    Those threads work in step: where one has to share its core with HTTP or with pictures being
    decoded, all wait for it, up to twenty times as long as one thread alone would take.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() - 1))


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Open the port.

    Raises:
        ValueError: It is in use, or no place where a server without a token may listen.
    """
    check_host(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=_WAITING_CONNECTIONS)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"cannot listen on {host}, port {port} ({error}): choose another --port or --host"
        ) from error
    # Connections inherit it. Without, the body of an answer would wait until the client has
    # acknowledged its head, which clients do 40 ms late; asyncio asks for it only where a socket
    # says that it is TCP's, and this one does not.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


@contextmanager
def serving(service: Servable, port: int = 0) -> Iterator[str]:
    """Serve this machine from a thread, as long as a block runs; yields the address.

    Args:
        service: What to serve.
        port: Where; 0 for one that is free.

    Example:
        >>> import tempfile, urllib.request
        >>> from pathlib import Path
        >>> from rotta.serve.served_model import load_model
        >>> service = Service(load_model("digits"), store=Path(tempfile.mkdtemp()) / "s.sqlite")
        >>> with serving(service) as url, urllib.request.urlopen(f"{url}/healthz") as answer:
        ...     answer.status
        200
    """
    started = threading.Event()
    server = _Server(service, started.set, threading.Event())
    sock = listen("127.0.0.1", port, token=None)
    service.start()
    thread = threading.Thread(target=lambda: server.run(sockets=[sock]), name="server")
    thread.start()
    try:
        started.wait()
        yield _address(sock)
    finally:
        server.should_exit = True
        thread.join()
        service.stop()


class _Server(uvicorn.Server):
    """Tells when it is ready; ends at once if it was told to before it could listen to signals."""

    def __init__(
        self, service: Servable, ready: Callable[[], None], told_to_end: threading.Event
    ) -> None:
        config = uvicorn.Config(
            service.app(),
            http=BoundedHttp,
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(service.limits.upload_seconds) + 5,
            server_header=False,
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        super().__init__(config)
        self._ready = ready
        self._told_to_end = told_to_end
        self._uploads = service.uploads

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
        self.should_exit |= self._told_to_end.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._uploads.end(_LAST_UPLOADS)
        await super().shutdown(sockets)


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
