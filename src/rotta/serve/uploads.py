"""Read the body of a request, never more of it than is allowed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from rotta.serve.limits import Limits
from rotta.serve.refusals import ENDING, Refusal

FIELD = "images"
_SHARES = 4  # streams that can fill the room for uploads only together


class Uploads:
    """The bodies that are being received or decoded, bounded all together and for each stream.

    Args:
        limits: ``max_body``, ``max_uploads`` and ``upload_seconds`` count here.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most_of_one = max(limits.max_body, limits.max_uploads // _SHARES)
        self._of: Counter[str] = Counter()
        self._under_way: set[asyncio.Timeout] = set()
        self._seconds = limits.upload_seconds
        self._ending = False
        self.held = 0
        """Bytes, of all of them."""

    @asynccontextmanager
    async def body(self, request: Request, stream: str | None) -> AsyncIterator[bytes]:
        """Receive a body; its bytes count as held until the block is left.

        Args:
            request: Whose it is.
            stream: Which it is for, if for any.

        Raises:
            Refusal: 408 for one that takes too long, 413 for one that is too large, 429 if too
                much is held for the stream already, 503 if for all together, or at the end.
        """
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._limits.max_body:
            raise self._too_large()
        received = bytearray()
        try:
            async with self._in_time():
                async for chunk in request.stream():
                    received += chunk
                    self._hold(stream, len(chunk))
                    self._check(stream, len(received))
            yield bytes(received)
        finally:
            self._hold(stream, -len(received))

    def end(self, seconds: float) -> None:
        """Wait no longer than so many seconds for what is still under way, or comes now."""
        self._ending, self._seconds = True, seconds
        deadline = asyncio.get_running_loop().time() + seconds
        for timeout in self._under_way:
            if not timeout.expired():
                timeout.reschedule(min(deadline, timeout.when() or deadline))

    def _hold(self, stream: str | None, size: int) -> None:
        self.held += size
        if stream is not None:
            self._of[stream] += size
            if not self._of[stream]:
                del self._of[stream]

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        seconds = self._seconds
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                self._under_way.add(timeout)
                yield
        except TimeoutError as error:
            if self._ending:
                raise Refusal(503, ENDING, 5) from error
            raise Refusal(408, f"the body did not arrive in {seconds:g} s: try again") from error
        finally:
            self._under_way.discard(timeout)

    def _check(self, stream: str | None, received: int) -> None:
        if received > self._limits.max_body:
            raise self._too_large()
        if stream is not None and self._of[stream] > self._most_of_one:
            message = f"too many images of stream {stream} arrive at once: wait for answers"
            raise Refusal(429, message, 1)
        if self.held > self._limits.max_uploads:
            raise Refusal(503, "too many images arrive at once: send this again later", 1)

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            f"a request may have {self._limits.max_body:,} bytes: send fewer images at once, or "
            "smaller ones",
        )


async def files_of(body: bytes, request: Request, max_images: int) -> list[bytes]:
    """The files of a multipart body, which is in memory and stays there.

    Raises:
        Refusal: 400 for one that cannot be read, 413 for too many files, 422 for none.
    """

    async def whole() -> AsyncIterator[bytes]:
        yield body

    parser = MultiPartParser(
        request.headers,
        whole(),  # type: ignore[arg-type]
        max_files=max_images,
        max_fields=1,
    )
    parser.spool_max_size = len(body) + 1  # nothing goes to the disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if error.message.startswith("Too many files"):
            raise Refusal(
                413, f"a request may have {max_images} images: send them in several"
            ) from error
        raise Refusal(400, f"the form cannot be read: {error.message}") from error
    except (ValueError, KeyError, HTTPException) as error:
        raise Refusal(400, "the form cannot be read: send multipart/form-data") from error
    parts = form.multi_items()
    files = [part for name, part in parts if name == FIELD and isinstance(part, UploadFile)]
    if not files or len(files) < len(parts):
        raise Refusal(422, f"send images as files in the form's field {FIELD!r}, and nothing else")
    contents = [await file.read() for file in files]
    await form.close()
    return contents
