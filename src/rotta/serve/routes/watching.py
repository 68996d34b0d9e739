"""``/healthz``, ``/metrics`` and ``/v1/model``: for those who look after the server."""

from fastapi import APIRouter
from starlette.responses import JSONResponse, PlainTextResponse

from rotta.serve.routes.common import Served
from rotta.serve.schemas import HealthBody, ModelBody, refusals
from rotta.versions import __version__

open_router = APIRouter()
router = APIRouter()


@open_router.head("/healthz", include_in_schema=False)  # load balancers ask like that
@open_router.get("/healthz", response_model=HealthBody, responses={503: {"model": HealthBody}})
async def healthz(service: Served) -> JSONResponse:
    """Whether the server predicts (else 503), and whether it can save (else `degraded`).

    Needs no token.
    """
    alive, saving = service.worker.alive, service.saver.saving
    failing = saving.problem is not None
    status = "failed" if not alive else "degraded" if failing else "ok"
    return JSONResponse(
        {
            "status": status,
            "saving": "failing" if failing else "ok",
            "unsaved": service.unsaved,
            "streams": service.worker.known,
        },
        200 if alive else 503,
    )


@router.get("/metrics", response_class=PlainTextResponse, responses=refusals())
async def metrics(service: Served) -> PlainTextResponse:
    """For Prometheus."""
    return PlainTextResponse(service.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/v1/model", response_model=ModelBody, responses=refusals())
async def model(service: Served) -> JSONResponse:
    """What is served, and within which limits."""
    return JSONResponse(
        {
            "model": service.model.name,
            "classes": list(service.model.classes),
            "image_size": service.model.side,
            "limits": dict(vars(service.limits)),
            "version": __version__,
        }
    )
