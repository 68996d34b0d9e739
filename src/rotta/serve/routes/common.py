"""What all routes need."""

import asyncio
import math
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials

from rotta.pool import StreamPool
from rotta.serve.access import bearer
from rotta.serve.refusals import Refusal
from rotta.serve.service import Service

Result = TypeVar("Result")


def service_of(request: Request) -> Service:
    """The service behind the application."""
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(service_of)]


def let_in(
    request: Request,
    service: Served,
    given: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)],
) -> None:
    """Refuse whoever may not use the server."""
    service.access.check(request, given)


async def answer_of(future: "Future[Result]") -> Result:
    """Wait for the worker without holding up others."""
    return await asyncio.wrap_future(future)


def known(pool: StreamPool, stream: str) -> None:
    """Refuse what is asked of a stream that is not there.

    Raises:
        Refusal: 404.
    """
    if stream not in pool:
        raise Refusal(404, f"there is no stream {stream}: the first prediction makes it")


def finite(value: Any) -> Any:
    """For JSON, which knows neither NaN nor infinity.

    Example:
        >>> finite({"far": [1.0, math.inf]})
        {'far': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value
