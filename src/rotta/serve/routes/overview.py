"""``/v1/overview``: all streams at a glance, those in trouble first; what the page asks for."""

import math
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse

from rotta.serve.routes.common import Served, answer_of, finite
from rotta.serve.schemas import OverviewBody, refusals
from rotta.serve.service import Service
from rotta.serve.standings import Standing, State

router = APIRouter()

Only = Literal["all", "trouble", "frozen"]
Sort = Literal["state", "stream", "entropy", "classes", "images_per_second", "latency_ms", "used"]

_WORST_FIRST: tuple[State, ...] = get_args(State)
_CHOSEN: dict[Only, Callable[[Standing], bool]] = {
    "all": lambda _: True,
    "trouble": lambda standing: standing.in_trouble,
    "frozen": lambda standing: standing.frozen,
}
_KEYS: dict[Sort, Callable[[Standing], Any]] = {
    "state": lambda standing: _WORST_FIRST.index(standing.state),
    "stream": lambda standing: standing.stream,
    "entropy": lambda standing: _last_if_unknown(standing.entropy),
    "classes": lambda standing: _last_if_unknown(standing.classes),
    "images_per_second": lambda standing: standing.images_per_second,
    "latency_ms": lambda standing: standing.latency_ms,
    "used": lambda standing: standing.last_used,
}


@router.get("/v1/overview", response_model=OverviewBody, responses=refusals())
async def overview(
    service: Served,
    part: Annotated[str, Query(description="Of their names.", max_length=64)] = "",
    only: Annotated[Only, Query(description="Which to list.")] = "all",
    sort: Annotated[Sort, Query(description="By what; then by name.")] = "state",
    descending: Annotated[bool, Query(description="The other way round.")] = False,
    offset: Annotated[int, Query(ge=0, le=10**9, description="Streams to leave out.")] = 0,
    limit: Annotated[int, Query(ge=1, le=200, description="Streams at most.")] = 50,
) -> JSONResponse:
    """How the server and its streams are; those not used of late come last, by name."""
    standings = service.worker.history.standings.all()
    chosen = [each for each in standings if _CHOSEN[only](each) and part in each.stream]
    chosen.sort(key=lambda standing: standing.stream)
    chosen.sort(key=_KEYS[sort], reverse=descending)
    page = chosen[offset : offset + limit]
    unused, others = await _unused(
        service, standings, part if only == "all" else None, max(0, offset - len(chosen))
    )
    return JSONResponse(
        finite(
            {
                "time": time.time(),
                "model": service.model.name,
                "guarded": service.guarded,
                "health": _health(service),
                "totals": _totals(service, standings),
                "matching": len(chosen) + others,
                "streams": _rows(service, page) + unused[: limit - len(page)],
            }
        )
    )


async def _unused(
    service: Service, standings: list[Standing], part: str | None, offset: int
) -> tuple[list[dict[str, Any]], int]:
    """Streams of which only the name is known, from ``offset`` on, and how many there are.

    The pool is asked for names only if there are such streams and they are wanted.
    """
    if part is None or service.worker.known <= len(standings):
        return [], 0
    used = {standing.stream for standing in standings}
    names = await answer_of(service.worker.ask(lambda pool: pool.names()))
    others = [name for name in names if part in name and name not in used]
    return [{"stream": name, "state": "unused"} for name in others[offset:]], len(others)


def _rows(service: Service, page: list[Standing]) -> list[dict[str, Any]]:
    curves = service.worker.history.standings.curves([standing.stream for standing in page])
    return [{**vars(standing), "curves": own} for standing, own in zip(page, curves, strict=True)]


def _totals(service: Service, standings: list[Standing]) -> dict[str, Any]:
    return {
        "known": service.worker.known,
        "resident": service.worker.resident,
        "in_trouble": sum(standing.in_trouble for standing in standings),
        "frozen": sum(standing.frozen for standing in standings),
        **vars(service.worker.history.standings.traffic()),
        "queue": service.worker.line.size,
    }


def _health(service: Service) -> dict[str, str | None]:
    problem = service.saver.saving.problem
    if not service.worker.alive:
        reason = "nothing is predicted any more: the server's log says why; start it again"
        return {"status": "failed", "reason": reason}
    if problem is not None:
        unsaved = f"{service.unsaved} streams are newer in memory than in the store"
        return {"status": "degraded", "reason": f"streams cannot be saved ({problem}): {unsaved}"}
    return {"status": "ok", "reason": None}


def _last_if_unknown(value: float | None) -> float:
    """NaN has no order, and would undo that of the others."""
    return value if value is not None and math.isfinite(value) else math.inf
