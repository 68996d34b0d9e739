"""What a page shows of a stream: its last requests, its last inputs, its bank."""

import base64
import io
from typing import Any

import numpy as np
from fastapi import APIRouter
from PIL import Image
from starlette.responses import JSONResponse
from torch import Tensor

from rotta.pool import BankContents, StreamPool
from rotta.serve.history import Moment, thumbnails
from rotta.serve.routes.common import Served, answer_of, finite, known
from rotta.serve.schemas import BankBody, HistoryBody, InputsBody, StreamId, refusals

router = APIRouter()


@router.get("/v1/streams/{stream}/history", response_model=HistoryBody, responses=refusals(404))
async def history(stream: StreamId, service: Served) -> JSONResponse:
    """The last requests of a stream; none of one that was not used lately."""
    await answer_of(service.worker.ask(lambda pool: known(pool, stream)))
    moments = service.worker.history.moments(stream)
    body = {
        "stream": stream,
        "moments": moments,
        "images_per_second": _rate(moments),
        "drift": service.worker.history.drift(stream),
    }
    return JSONResponse(finite(body))


@router.get("/v1/streams/{stream}/inputs", response_model=InputsBody, responses=refusals(404))
async def inputs(stream: StreamId, service: Served) -> JSONResponse:
    """The last images that a stream was sent, made small; they are in memory only."""
    await answer_of(service.worker.ask(lambda pool: known(pool, stream)))
    pictures = service.worker.history.pictures(stream)

    def encode() -> list[dict[str, Any]]:
        return [
            {
                **_picture(seen.pixels, seen.number, service.model.classes),
                "confidence": finite(round(seen.confidence, 4)),
            }
            for seen in pictures
        ]

    return JSONResponse({"stream": stream, "inputs": await service.decoders.do(encode)})


@router.get("/v1/streams/{stream}/bank", response_model=BankBody, responses=refusals(404, 409))
async def bank(stream: StreamId, service: Served) -> JSONResponse:
    """What a stream learns from: the images in its bank, made small."""

    def look(pool: StreamPool) -> BankContents:
        known(pool, stream)
        return pool.bank(stream)

    contents = await answer_of(service.worker.ask(look))
    held = await service.decoders.do(lambda: _held(contents, service.model.classes))
    return JSONResponse({"stream": stream, "held": held})


def _rate(moments: list[Moment]) -> float:
    if len(moments) < 2:
        return 0.0
    seconds = moments[-1]["time"] - moments[0]["time"]
    images = sum(moment["images"] for moment in moments[1:])
    return round(images / max(seconds, 1e-3), 3)


def _held(contents: BankContents, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    if not len(contents.labels):  # of no size then
        return []
    rows = zip(
        thumbnails(contents.images.cpu()),
        contents.labels.tolist(),
        contents.ages.tolist(),
        contents.uncertainties.tolist(),
        strict=True,
    )
    return [
        {**_picture(image, label, classes), "age": int(age), "uncertainty": finite(uncertainty)}
        for image, label, age, uncertainty in rows
    ]


def _picture(pixels: Tensor, number: int, classes: tuple[str, ...]) -> dict[str, Any]:
    """uint8 (3, h, w) as a PNG that a page can show."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.numpy().transpose(1, 2, 0))).save(file, "PNG")
    address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return {"class": number, "label": classes[number], "image": address}
