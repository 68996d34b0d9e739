"""What concerns all replicas: their answers, put together to one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from rotta.pool import StoreError
from rotta.serve.metrics import Metrics
from rotta.serve.ray.calls import GoneError, ask_member
from rotta.serve.ray.fenced_store import FencedStore
from rotta.serve.ray.messages import Answered, Asked
from rotta.serve.ray.metrics import with_replicas
from rotta.serve.ray.overview import Row, merged_overview
from rotta.serve.ray.router import Member, Router
from rotta.serve.refusals import Refusal
from rotta.serve.worker import as_refusal

_PAGE = 100  # streams, as replicas have it
_LONGEST_OVERVIEW = 200  # rows, as replicas have it
_PATIENCE = 5.0  # seconds for a replica to say how it is


class _Otherwise(Exception):
    """A replica has answered otherwise than asked, and so does this."""

    def __init__(self, answered: Answered) -> None:
        super().__init__(answered.status)
        self.answered = answered


class Gathering:
    """Answers about all streams and all replicas.

    Args:
        router: Knows who lives.
        store: Knows also those streams that no replica holds.
        metrics: Of what listens.
        wanted: Replicas that there should be.
    """

    def __init__(self, router: Router, store: FencedStore, metrics: Metrics, wanted: int) -> None:
        self._router = router
        self._store = store
        self._metrics = metrics
        self._wanted = wanted
        self._of: dict[str, Callable[[Request, Asked], Awaitable[Answered]]] = {
            "/healthz": self._health,
            "/metrics": self._all_metrics,
            "/v1/streams": self._streams,
            "/v1/overview": self._overview,
        }

    def answers(self, request: Request) -> bool:
        """Whether this is a question for all replicas."""
        return request.method == "GET" and request.scope["path"] in self._of

    async def answer(self, request: Request, asked: Asked) -> Answered:
        """The answer to such a question.

        Raises:
            Refusal: No replica is there, or the store is not.
        """
        try:
            return await self._of[request.scope["path"]](request, asked)
        except _Otherwise as end:
            return end.answered

    async def _health(self, _: Request, asked: Asked) -> Answered:
        bodies = [json.loads(each.body) for _, each in await self._ask_all(asked)]
        predicting = sum(body["status"] != "failed" for body in bodies)
        saving = all(body["saving"] == "ok" for body in bodies)
        failed = not predicting or self._router.closed
        well = saving and predicting == self._wanted
        try:
            streams = len(await self._stored())
        except Refusal:
            streams = sum(body["streams"] for body in bodies)
        body = {
            "status": "failed" if failed else "ok" if well else "degraded",
            "saving": "ok" if saving else "failing",
            "unsaved": sum(body["unsaved"] for body in bodies),
            "streams": streams,
        }
        return _named("healthz", JSONResponse(body, 503 if failed else 200))

    async def _all_metrics(self, _: Request, asked: Asked) -> Answered:
        answers = await self._ask_all(asked)
        texts = {member.number: each.body.decode() for member, each in answers}
        text = with_replicas(self._metrics.text(), texts)
        return _named("metrics", PlainTextResponse(text, media_type="text/plain; version=0.0.4"))

    async def _streams(self, request: Request, asked: Asked) -> Answered:
        """A page: what replicas tell of those that they hold, and the names of the others."""
        pages = await self._pages(asked)
        after = request.query_params.get("after", "")
        limit = int(request.query_params.get("limit", _PAGE))
        rows = {row["stream"]: row for page in pages for row in page["streams"]}
        stored = await self._stored()
        names = sorted({*rows, *(name for name in stored if name > after)})
        shown = [rows.get(name, {"stream": name, "last": None}) for name in names[:limit]]
        more = len(names) > limit or any(page["next"] for page in pages)
        body = {
            "streams": shown,
            "total": len({*stored, *rows}),
            "next": names[limit - 1] if more else None,
        }
        return _named("streams", JSONResponse(body))

    async def _overview(self, request: Request, asked: Asked) -> Answered:
        pages = await self._pages(asked)
        query = dict(request.query_params)
        more = await self._rows_before(asked, query)
        unheld: list[str] = []
        if query.get("only", "all") == "all":
            held, part = self._router.streams, query.get("part", "")
            unheld = [name for name in await self._stored() if name not in held and part in name]
        body = merged_overview(pages, more, unheld, query)
        body["health"] = self._worst_health([page["health"] for page in pages])
        return _named("overview", JSONResponse(body))

    async def _rows_before(self, asked: Asked, query: dict[str, str]) -> list[Row]:
        """All rows up to where a later page ends: it may have any of them, of any replica."""
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 50))
        rows: list[Row] = []
        for start in range(0, offset and offset + limit, _LONGEST_OVERVIEW):
            part = urlencode({**query, "offset": start, "limit": _LONGEST_OVERVIEW})
            for page in await self._pages(replace(asked, query=part.encode())):
                rows += page["streams"]
        return rows

    def _worst_health(self, of_each: list[dict[str, str | None]]) -> dict[str, str | None]:
        for status in ("failed", "degraded"):
            for health in of_each:
                if health["status"] == status:
                    return {**health, "status": "degraded"}  # others still predict
        if len(of_each) < self._wanted:
            reason = f"{len(of_each)} of {self._wanted} replicas are running"
            return {"status": "degraded", "reason": f"{reason}: the server's log says why"}
        return {"status": "ok", "reason": None}

    async def _pages(self, asked: Asked) -> list[dict[str, Any]]:
        answers = [each for _, each in await self._ask_all(asked)]
        if not answers:
            self._router.any()  # tells why, if it knows
            raise Refusal(503, "no replica answers just now: send this again later", 2)
        for each in answers:
            if each.status != 200:
                raise _Otherwise(each)
        return [json.loads(each.body) for each in answers]

    async def _stored(self) -> list[str]:
        try:
            return await asyncio.to_thread(self._store.names)
        except StoreError as error:
            raise as_refusal(error) from error

    async def _ask_all(self, asked: Asked) -> list[tuple[Member, Answered]]:
        """Of those who answer; who does not will be found out about by others."""
        members = self._router.members
        answers = await asyncio.gather(*(_ask_patiently(member, asked) for member in members))
        return [(member, each) for member, each in zip(members, answers, strict=True) if each]


async def _ask_patiently(member: Member, asked: Asked) -> Answered | None:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await ask_member(member, asked)
    except (GoneError, TimeoutError):
        return None


def _named(route: str, response: Response) -> Answered:
    return replace(Answered.of(response), route=route)
