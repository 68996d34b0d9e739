"""The JSON that goes out, for the OpenAPI description."""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, Field

from rotta.serve.refusals import Refusal

ID_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ID_IN_WORDS = "a letter or a digit, then up to 63 letters, digits, dots, underscores and hyphens"

StreamId = Annotated[
    str,
    Path(
        pattern=ID_PATTERN,
        max_length=64,
        description=f"{ID_IN_WORDS.capitalize()}.",
        examples=["gate-7"],
    ),
]


class ErrorBody(BaseModel):
    """Why a request was refused, and what to do."""

    status: int
    error: str


class Ranked(BaseModel):
    """A class with its probability."""

    number: int = Field(alias="class")
    label: str
    probability: float


class ImagePrediction(Ranked):
    """What one image shows: the likeliest class, and the next ones."""

    top: list[Ranked]


class CountersBody(BaseModel):
    """How far a stream is."""

    requests: int = Field(description="Predicted, this one included.")
    samples: int = Field(description="Images learnt from, those of this request included.")
    updates: int = Field(description="Steps of learning, from before this request.")
    frozen: bool
    alarms: int = Field(description="Times that the guard stepped in since the server started.")


class PredictBody(BaseModel):
    """The answer to images."""

    stream: str
    predictions: list[ImagePrediction] = Field(description="One for each image, in their order.")
    latency_ms: float = Field(description="In which it waited and was predicted, once decoded.")
    counters: CountersBody


class StreamBody(BaseModel):
    """All about a stream."""

    stream: str
    resident: bool = Field(description="In memory; else all is as of its last save.")
    frozen: bool
    requests: int
    samples: int
    updates: int
    last_used: float = Field(description="Seconds since 1970.")
    saved_as_of: float | None = Field(
        description="Of when the state is that is safe in the store, in seconds since 1970; null "
        "if nothing was written since the server started."
    )
    entropy: float | None = Field(description="Mean over the last request, in nats.")
    lately: list[float] = Field(description="How often each class was predicted of late.")
    bank_by_class: list[int]
    bank_ages: list[int]
    statistics_distance: float | None = Field(description="From the source's; relative.")
    parameter_distance: float | None = Field(description="Of γ and β from the source's; relative.")
    rate: float | None = Field(description="By which the guard multiplies the learning rate.")
    events: list[dict[str, Any]] = Field(description="What the guard did, the newest last.")


class Overview(BaseModel):
    """A stream in a list."""

    stream: str
    last: dict[str, Any] | None = Field(
        description="Its last request, as in its history; null if it was not used lately."
    )


class HealthWords(BaseModel):
    """Whether all is well, and if not, why."""

    status: Literal["ok", "degraded", "failed"]
    reason: str | None


class Totals(BaseModel):
    """Of all streams together."""

    known: int = Field(description="In memory or in the store.")
    resident: int = Field(description="In memory.")
    in_trouble: int
    frozen: int = Field(description="Of those used since the server started.")
    requests_per_second: float = Field(description="Over the last 30 seconds, as the latencies.")
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    queue: int = Field(description="Images that wait.")


class CurvesBody(BaseModel):
    """A value for each 5 seconds of the last 3 minutes, the newest last."""

    entropy: list[float | None]
    classes: list[float | None]
    images_per_second: list[float | None]
    latency_ms: list[float | None]


class StandingBody(BaseModel):
    """How a stream stands."""

    stream: str
    state: Literal["broken", "alarm", "well", "unused"] = Field(
        description="It predicts NaN; the guard has stepped in and lets it learn slowly or not at "
        "all; neither; not known: it was not used since the server started, or not for long."
    )
    action: str | None = Field(None, description="What the guard did last.")
    rate: float | None = Field(None, description="By which the guard multiplies its learning rate.")
    frozen: bool | None = None
    updates: int | None = None
    last_used: float | None = Field(None, description="Seconds since 1970.")
    entropy: float | None = Field(None, description="Mean over the last request, in nats.")
    classes: float | None = Field(
        None, description="exp(H) of the classes of its last 64 predictions; 1: one class alone."
    )
    images_per_second: float | None = None
    latency_ms: float | None = None
    curves: CurvesBody | None = None


class OverviewBody(BaseModel):
    """All streams at a glance."""

    time: float = Field(description="Of the server, in seconds since 1970.")
    model: str
    guarded: bool = Field(description="Whether a guard watches the streams.")
    health: HealthWords
    totals: Totals
    matching: int = Field(description="Streams that were asked for, on all pages.")
    streams: list[StandingBody]


class StreamsBody(BaseModel):
    """A page of all streams, in alphabetical order."""

    streams: list[Overview]
    total: int
    next: str | None = Field(description="Give it as `after` for the next page; null at the end.")


class MomentBody(BaseModel):
    """One request."""

    time: float
    images: int
    entropy: float | None
    classes: dict[int, int]
    latency_ms: float


class DriftBody(BaseModel):
    """How far a stream had moved after an update."""

    time: float
    statistics: float | None = Field(description="From the source's; relative.")
    parameters: float | None = Field(description="Of γ and β from the source's; relative.")
    rate: float | None = Field(description="By which the guard multiplied the learning rate.")


class HistoryBody(BaseModel):
    """What happened lately in a stream; in memory only, for streams used of late."""

    stream: str
    moments: list[MomentBody] = Field(description="The newest last.")
    images_per_second: float = Field(description="Over these moments.")
    drift: list[DriftBody] = Field(description="After each update, the newest last.")


class Picture(BaseModel):
    """An image and the class that was predicted."""

    number: int = Field(alias="class")
    label: str
    image: str = Field(description="A data: address with a PNG.")


class Input(Picture):
    """What a stream was sent."""

    confidence: float | None = Field(description="Probability of the class.")


class InputsBody(BaseModel):
    """The last inputs of a stream, made small."""

    stream: str
    inputs: list[Input] = Field(description="The newest last.")


class Held(Picture):
    """What is in a bank."""

    age: int
    uncertainty: float | None


class BankBody(BaseModel):
    """What a stream learns from, made small."""

    stream: str
    held: list[Held]


class ModelBody(BaseModel):
    """What is served."""

    model: str
    classes: list[str]
    image_size: int
    limits: dict[str, float]
    version: str


class HealthBody(BaseModel):
    """Whether all is well."""

    status: Literal["ok", "degraded", "failed"]
    saving: Literal["ok", "failing"]
    unsaved: int = Field(description="Streams whose newest state is in memory only.")
    streams: int


_MEANINGS = {
    400: "The request cannot be read.",
    401: "No token, or a wrong one.",
    403: "There is no token, and the request comes from elsewhere.",
    404: "There is no such stream.",
    408: "The body took too long to arrive.",
    409: "The stream's state cannot be used.",
    413: "Too many bytes, images or pixels.",
    415: "Neither PNG, JPEG nor a raw tensor.",
    422: "Something is missing or has a wrong value.",
    429: "The stream has too much waiting.",
    503: "The server has too much to do, is shutting down, or cannot read its store.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides what it is for, as FastAPI takes it."""
    return {
        status: {"model": ErrorBody, "description": _MEANINGS[status]}
        for status in (401, 403, *statuses, 422, 503)
    }


def error_body(refusal: Refusal) -> dict[str, Any]:
    """As `ErrorBody` describes it."""
    return {"status": refusal.status, "error": refusal.message}
