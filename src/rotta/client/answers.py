"""What a server answers, in Python."""

from dataclasses import dataclass
from typing import Any


class RefusedError(RuntimeError):
    """The server answered, but not what was asked for; its message says what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (status {status})")
        self.status = status


@dataclass(frozen=True)
class Ranked:
    """A class with its probability."""

    number: int
    label: str
    probability: float


@dataclass(frozen=True)
class Counters:
    """How far a stream is, the request included that was just answered."""

    requests: int
    samples: int
    updates: int
    frozen: bool
    alarms: int


@dataclass(frozen=True)
class Prediction:
    """The answer to B images."""

    stream: str
    classes: list[int]
    """The likeliest for each image, B of them."""
    top: list[list[Ranked]]
    """For each image the likeliest classes, best first."""
    latency_ms: float
    """On the server, from decoded images to the prediction."""
    counters: Counters


@dataclass(frozen=True)
class StreamState:
    """How a stream is doing; see ``/openapi.json`` of the server for each field."""

    stream: str
    resident: bool
    frozen: bool
    requests: int
    samples: int
    updates: int
    last_used: float
    saved_as_of: float | None
    entropy: float | None
    lately: list[float]
    bank_by_class: list[int]
    bank_ages: list[int]
    statistics_distance: float | None
    parameter_distance: float | None
    rate: float | None
    events: list[dict[str, Any]]
