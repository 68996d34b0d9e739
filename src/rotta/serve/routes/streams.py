"""``/v1/streams``: which there are, how they are, and changing them."""

from bisect import bisect_right
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from rotta.pool import StreamInfo, StreamPool
from rotta.serve.routes.common import Served, answer_of, finite, known
from rotta.serve.schemas import StreamBody, StreamId, StreamsBody, refusals
from rotta.serve.service import Service

router = APIRouter()


@router.get("/v1/streams", response_model=StreamsBody, responses=refusals())
async def streams(
    service: Served,
    after: Annotated[
        str, Query(description="Start behind this one: `next` of the page before.", max_length=64)
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Streams on a page.")] = 100,
) -> JSONResponse:
    """All streams, in alphabetical order, page by page."""
    names = sorted(await answer_of(service.worker.ask(lambda pool: pool.names())))
    start = bisect_right(names, after)
    page = names[start : start + limit]
    last = [service.worker.history.moments(name)[-1:] for name in page]
    return JSONResponse(
        {
            "streams": [
                {"stream": name, "last": finite(dict(moments[0])) if moments else None}
                for name, moments in zip(page, last, strict=True)
            ],
            "total": len(names),
            "next": page[-1] if start + limit < len(names) else None,
        }
    )


@router.get("/v1/streams/{stream}", response_model=StreamBody, responses=refusals(404, 409))
async def stream_info(stream: StreamId, service: Served) -> JSONResponse:
    """How a stream is doing."""

    def look(pool: StreamPool) -> StreamInfo:
        known(pool, stream)
        return pool.info(stream)

    return _described(await answer_of(service.worker.ask(look)), service)


@router.delete(
    "/v1/streams/{stream}", status_code=204, response_model=None, responses=refusals(404, 429)
)
async def delete(stream: StreamId, service: Served) -> Response:
    """Forget a stream: all that it has learnt, in memory and in the store."""

    def forget(pool: StreamPool) -> None:
        known(pool, stream)
        pool.delete(stream)
        service.worker.history.forget(stream)

    await answer_of(service.worker.change(stream, forget))
    return Response(status_code=204)


@router.post(
    "/v1/streams/{stream}/reset", response_model=StreamBody, responses=refusals(404, 409, 429)
)
async def reset(stream: StreamId, service: Served) -> JSONResponse:
    """Start a stream anew, from the source model; a frozen one stays frozen."""
    return await _changed(stream, service, lambda pool: pool.reset(stream))


@router.post(
    "/v1/streams/{stream}/freeze", response_model=StreamBody, responses=refusals(404, 409, 429)
)
async def freeze(
    stream: StreamId,
    service: Served,
    frozen: Annotated[bool, Query(description="False: learn again.")] = True,
) -> JSONResponse:
    """Let a stream predict without learning, or learn again."""
    return await _changed(stream, service, lambda pool: pool.freeze(stream, frozen))


async def _changed(
    stream: str, service: Service, change: Callable[[StreamPool], Any]
) -> JSONResponse:
    def both(pool: StreamPool) -> StreamInfo:
        known(pool, stream)
        change(pool)
        info = pool.info(stream)
        service.worker.history.note(info)
        return info

    return _described(await answer_of(service.worker.change(stream, both, at_once=True)), service)


def _described(info: StreamInfo, service: Service) -> JSONResponse:
    body = info.as_dict()
    name = body.pop("name")
    body |= {"stream": name, "saved_as_of": service.saver.saved_as_of(name)}
    return JSONResponse(finite(body))
