"""A server that ``rotta serve`` has started, as an object."""

from collections.abc import Iterator
from dataclasses import fields
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from rotta.client.answers import Counters, Prediction, Ranked, StreamState
from rotta.client.asking import Line
from rotta.client.bodies import Images, encoded

Record = TypeVar("Record", Counters, StreamState)


class Client:
    """Predictions of a server, for any number of streams; threads may share it.

    Args:
        url: Of the server, such as ``http://127.0.0.1:8000``.
        token: If it wants one.
        timeout: Seconds to wait for a connection or an answer.
        patience: Seconds over which a request is sent again, while the server says that it is
            busy. Only refused requests are: nothing is ever predicted, and learnt, twice.

    Raises:
        ValueError: The address cannot be used.

    Every method raises :class:`RefusedError` with the server's reason, or ``ConnectionError`` if
    there is no answer.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from pathlib import Path
        >>> from rotta.serve import Service, load_model, serving
        >>> service = Service(load_model("digits"), store=Path(tempfile.mkdtemp()) / "s.sqlite")
        >>> with serving(service) as url:
        ...     client = Client(url)
        ...     answer = client.predict("gate-7", np.zeros((2, 3, 32, 32), np.uint8))
        >>> len(answer.classes), answer.counters.samples
        (2, 2)
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 30.0
    ) -> None:
        self._line = Line(url, token, timeout, patience)

    def predict(self, stream: str, images: Images, *, top: int = 5) -> Prediction:
        """Predict images of a stream, which then learns from them.

        Args:
            stream: Its name; a new one starts here.
            images: A tensor or an array, (B, 3, side, side), uint8 or in [0, 1]; or pictures of
                any size, which the server brings to that of its model.
            top: How many of the likeliest classes to name.
        """
        query, kind, body = encoded(images)
        path = f"{_path(stream)}/predict"
        answer = self._line.ask("POST", path, {"top": top, **query}, body, kind)
        ranked = [
            [Ranked(each["class"], each["label"], each["probability"]) for each in image["top"]]
            for image in answer["predictions"]
        ]
        return Prediction(
            stream=answer["stream"],
            classes=[image["class"] for image in answer["predictions"]],
            top=ranked,
            latency_ms=answer["latency_ms"],
            counters=_read(Counters, answer["counters"]),
        )

    def info(self, stream: str) -> StreamState:
        """How a stream is doing."""
        return _read(StreamState, self._line.ask("GET", _path(stream)))

    def streams(self) -> list[str]:
        """All streams, in alphabetical order."""
        return list(self._pages())

    def reset(self, stream: str) -> StreamState:
        """Start a stream anew, from the source model."""
        return _read(StreamState, self._line.ask("POST", f"{_path(stream)}/reset"))

    def freeze(self, stream: str, frozen: bool = True) -> StreamState:
        """Let a stream predict without learning, or learn again."""
        query = {"frozen": str(frozen).lower()}
        return _read(StreamState, self._line.ask("POST", f"{_path(stream)}/freeze", query))

    def delete(self, stream: str) -> None:
        """Forget a stream."""
        self._line.ask("DELETE", _path(stream))

    def health(self) -> dict[str, Any]:
        """What ``/healthz`` says."""
        answer: dict[str, Any] = self._line.ask("GET", "/healthz")
        return answer

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _pages(self) -> Iterator[str]:
        after: str | None = ""
        while after is not None:
            page = self._line.ask("GET", "/v1/streams", {"after": after, "limit": 1000})
            yield from (each["stream"] for each in page["streams"])
            after = page["next"]


def _path(stream: str) -> str:
    return f"/v1/streams/{quote(stream, safe='')}"


def _read(kind: type[Record], body: dict[str, Any]) -> Record:
    """The fields that are known here: a newer server may send more."""
    return kind(**{field.name: body[field.name] for field in fields(kind)})
