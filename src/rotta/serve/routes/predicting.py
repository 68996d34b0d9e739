"""``POST /v1/streams/{stream}/predict``."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import torch
from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse
from torch import Tensor

from rotta.serve.gate import slow_to_say_wait
from rotta.serve.images import DTYPES, count_images, decode_file, read_tensor
from rotta.serve.refusals import Refusal
from rotta.serve.routes.common import Served, answer_of
from rotta.serve.schemas import PredictBody, StreamId, refusals
from rotta.serve.service import Service
from rotta.serve.uploads import FIELD, files_of
from rotta.serve.worker import Answer

router = APIRouter()

_RAW = "application/octet-stream"
_FORM = "multipart/form-data"
_QUICK = 1 << 20  # bytes that are looked through in less time than another thread needs
_BODIES = {
    "requestBody": {
        "required": True,
        "content": {
            _FORM: {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {
                        FIELD: {
                            "type": "array",
                            "minItems": 1,
                            "items": {"type": "string", "format": "binary"},
                            "description": "PNG or JPEG files.",
                        }
                    },
                }
            },
            _RAW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/v1/streams/{stream}/predict",
    response_model=PredictBody,
    responses=refusals(400, 408, 409, 413, 415, 429),
    openapi_extra=_BODIES,
)
async def predict(
    stream: StreamId,
    request: Request,
    service: Served,
    top: Annotated[
        int, Query(ge=1, le=1000, description="How many of the likeliest classes to name.")
    ] = 5,
    shape: Annotated[
        str | None, Query(description="Of a raw tensor: `B,3,side,side`.", max_length=40)
    ] = None,
    dtype: Annotated[
        str | None,
        Query(
            description="Of a raw tensor: `uint8`, 0 to 255, or `float32`, little-endian, in "
            "[0, 1].",
            json_schema_extra={"enum": list(DTYPES)},
        ),
    ] = None,
) -> JSONResponse:
    """Predict images of a stream, which then learns from them; a new stream starts here.

    Send PNG or JPEG files as a form, in the field `images`, or the bytes of one tensor as
    `application/octet-stream` with `shape` and `dtype`. Files are brought to the model's size,
    tensors must have it.
    """
    async with slow_to_say_wait():
        async with service.gate.passed(stream, _announced(shape, service)):
            images = await _images_of(stream, request, service, shape, dtype)
        asked = service.worker.predict(stream, images)
    answer = await answer_of(asked)
    return JSONResponse(_as_json(stream, answer, min(top, len(service.model.classes)), service))


def _announced(shape: str | None, service: Service) -> int:
    """Images that a request has as far as that is known; files are counted later."""
    return min(max(1, count_images(shape)), service.limits.max_images)


async def _images_of(
    stream: str, request: Request, service: Service, shape: str | None, dtype: str | None
) -> Tensor:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_FORM, _RAW):
        raise Refusal(415, f"send {_FORM} with image files, or {_RAW} with a tensor")
    limits = service.limits
    if kind == _RAW and count_images(shape) > limits.max_images:
        raise Refusal(413, f"a request may have {limits.max_images} images: send them in several")
    async with service.uploads.body(request, stream) as body:
        if kind == _RAW:
            read = partial(read_tensor, body, shape, dtype, service.model)
            return read() if len(body) < _QUICK else await service.decoders.do(read)
        files = await files_of(body, request, limits.max_images)
        with service.worker.line.announced(stream, len(files)):
            return torch.stack(await service.decoders.in_turn(stream, _decoding(files, service)))


def _decoding(files: list[bytes], service: Service) -> Iterator[Callable[[], Tensor]]:
    for place, data in enumerate(files, start=1):
        yield partial(decode_file, data, place, service.model, service.limits.max_pixels)


def _as_json(stream: str, answer: Answer, top: int, service: Service) -> dict[str, Any]:
    if not answer.probabilities.isfinite().all():
        raise Refusal(409, f"stream {stream} has learnt until nothing was left of it: reset it")
    values, classes = answer.probabilities.topk(top, dim=1)
    labels = service.model.classes
    predictions = []
    for row, numbers in zip(values.tolist(), classes.tolist(), strict=True):
        ranked = [
            {"class": number, "label": labels[number], "probability": round(value, 6)}
            for number, value in zip(numbers, row, strict=True)
        ]
        predictions.append({**ranked[0], "top": ranked})
    return {
        "stream": stream,
        "predictions": predictions,
        "latency_ms": round(1000 * answer.latency, 3),
        "counters": vars(answer.counters),
    }
