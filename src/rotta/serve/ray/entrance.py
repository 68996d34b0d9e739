"""What listens: it passes each request to the replica that holds the stream."""

import logging
import re
from types import SimpleNamespace

from fastapi.security import HTTPAuthorizationCredentials
from fastapi.security.utils import get_authorization_scheme_param
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rotta.serve.access import Access
from rotta.serve.app import refusal_answer
from rotta.serve.ray.calls import GoneError, ask_member
from rotta.serve.ray.gathering import Gathering
from rotta.serve.ray.messages import Answered, Asked
from rotta.serve.ray.router import Member, Router
from rotta.serve.refusals import Refusal
from rotta.serve.schemas import ID_PATTERN
from rotta.serve.uploads import Uploads

_LOG = logging.getLogger("rotta.serve")
_OF_A_STREAM = re.compile(rf"/v1/streams/({ID_PATTERN.strip('^$')})(/.*)?", re.DOTALL)
_CLIENT_LEFT = 499  # nobody sees it but the metrics


class Entrance:
    """An ASGI application without a model: replicas answer, each with the one of `rotta.serve.app`.

    Args:
        router: Knows who holds which stream.
        gathering: Answers what concerns all replicas.
        access: Lets clients in, before their images are received.
        uploads: Receives them, and bounds what is under way.
    """

    def __init__(
        self, router: Router, gathering: Gathering, access: Access, uploads: Uploads
    ) -> None:
        self._router = router
        self._gathering = gathering
        self._access = access
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        answered = await self._answer(Request(scope, receive))
        scope["route"] = SimpleNamespace(name=answered.route)
        response = Response(answered.body, answered.status)
        response.raw_headers = answered.headers
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Answered:
        try:
            return await self._passed_on(request)
        except Refusal as refusal:
            return Answered.of(refusal_answer(refusal))
        except ClientDisconnect:
            return Answered(_CLIENT_LEFT, [], b"")
        except Exception:
            _LOG.exception("a request failed")
            mistake = "the server made a mistake, which is in its log: report it"
            return Answered.of(refusal_answer(Refusal(500, mistake)))

    async def _passed_on(self, request: Request) -> Answered:
        found = _OF_A_STREAM.fullmatch(request.scope["path"])
        stream = found[1] if found else None
        if stream is not None or self._gathering.answers(request):
            self._check_access(request)
        # counts as being uploaded until it is answered, so that what is under way is bounded
        async with self._uploads.body(request, stream) as body:
            asked = Asked(
                request.method,
                request.scope["path"],
                request.scope["query_string"],
                list(request.scope["headers"]),
                body,
            )
            if self._gathering.answers(request):
                return await self._gathering.answer(request, asked)
            if stream is None:
                return await self._ask(self._router.any(), asked, None, 0)
            member, epoch = self._router.holder(stream)
            return await self._ask(member, asked, stream, epoch)

    async def _ask(self, member: Member, asked: Asked, stream: str | None, epoch: int) -> Answered:
        try:
            return await ask_member(member, asked, stream, epoch)
        except GoneError as error:
            self._router.drop(member)
            raise Refusal(
                503,
                "the replica that was to answer is gone: send this again, and its streams go on "
                "from their last save",
                1,
            ) from error

    def _check_access(self, request: Request) -> None:
        if request.scope["path"] == "/healthz":
            return
        scheme, given = get_authorization_scheme_param(request.headers.get("authorization"))
        is_bearer = scheme.lower() == "bearer" and given
        credentials = HTTPAuthorizationCredentials(scheme=scheme, credentials=given)
        self._access.check(request, credentials if is_bearer else None)
