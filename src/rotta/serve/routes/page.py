"""The page at ``/`` and its parts; they hold no data, so that they need no token."""

from fastapi import APIRouter
from starlette.responses import Response

from rotta.serve.page import PAGE, PARTS
from rotta.serve.refusals import Refusal

router = APIRouter(include_in_schema=False)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@router.get("/")
async def page() -> Response:
    """The page."""
    return Response(PAGE.read_bytes(), media_type="text/html", headers=_HEADERS)


@router.get("/page/{name}")
async def page_part(name: str) -> Response:
    """Its script and style."""
    if name not in PARTS:
        raise Refusal(404, f"the page has no part {name}: reload it")
    file, kind = PARTS[name]
    return Response(file.read_bytes(), media_type=kind, headers=_HEADERS)
