"""The application: routes, and refusals as JSON."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from rotta.serve.front import Front
from rotta.serve.refusals import Refusal
from rotta.serve.routes import looking, overview, page, predicting, streams, watching
from rotta.serve.routes.common import let_in
from rotta.serve.schemas import ID_IN_WORDS, error_body
from rotta.serve.service import Service
from rotta.versions import __version__

_LOG = logging.getLogger("rotta.serve")
_CLIENT_LEFT = 499  # nobody sees it but the metrics
_ABOUT = "Predictions for many streams, each of which adapts on its own."


def build_app(service: Service) -> ASGIApp:
    """The application of a service that was started."""
    app = FastAPI(
        title="rotta", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None
    )
    app.state.service = service
    for router in (watching.open_router, page.router):
        app.include_router(router)
    for module in (predicting, streams, looking, overview, watching):
        app.include_router(module.router, dependencies=[Depends(let_in)])
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_such_thing)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _failed)
    return Front(app, service.metrics)


def refusal_answer(refusal: Refusal, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal as whoever asked gets it."""
    headers = dict(headers or {})
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(refusal.retry_after)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(refusal), refusal.status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refusal_answer(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return refusal_answer(Refusal(422, "; ".join(map(_problem, error.errors()))))


def _problem(problem: Mapping[str, Any]) -> str:
    """What is wrong with a part of a request; only names of streams have a pattern."""
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "string_pattern_mismatch":
        return f"{where}: {problem['input']!r} cannot name a stream: use {ID_IN_WORDS}"
    return f"{where}: {problem['msg']}"


async def _no_such_thing(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: /openapi.json describes what there is"
    return refusal_answer(Refusal(error.status_code, message), dict(error.headers or {}))


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=_CLIENT_LEFT)


async def _failed(_: Request, __: Exception) -> Response:
    return refusal_answer(Refusal(500, "the server made a mistake, which is in its log: report it"))
