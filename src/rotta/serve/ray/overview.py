"""``/v1/overview`` of several replicas as one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from rotta.serve.standings import State

Row = dict[str, Any]

_WORST_FIRST = get_args(State)
_UNUSED = "unused"
_FIELDS = {"used": "last_used"}  # that are called otherwise where they are sorted by


def merged_overview(
    pages: Sequence[Mapping[str, Any]],
    more: Iterable[Row],
    unheld: Sequence[str],
    query: Mapping[str, str],
) -> dict[str, Any]:
    """A page of all streams, from the first page of each replica.

    Args:
        pages: Of each replica, at least one.
        more: Rows of further pages, if any are needed.
        unheld: Names of matching streams that are in the store alone.
        query: What was asked for.

    Example:
        >>> totals = {"queue": 1, "requests_per_second": 2.0, "latency_p50_ms": 5.0}
        >>> page = {"totals": totals | {"latency_p99_ms": 9.0, "known": 1}, "matching": 1}
        >>> first = page | {"streams": [{"stream": "b", "state": "well"}]}
        >>> second = page | {"streams": [{"stream": "c", "state": "alarm"}]}
        >>> body = merged_overview([first, second], [], ["a"], {})
        >>> [row["stream"] for row in body["streams"]], body["matching"]
        (['c', 'b', 'a'], 3)
        >>> body["totals"]["queue"], body["totals"]["latency_p50_ms"]
        (2, 5.0)
    """
    rows = {row["stream"]: row for page in pages for row in page["streams"]}
    rows |= {row["stream"]: row for row in more}
    rows |= {name: {"stream": name, "state": _UNUSED} for name in unheld}
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", 50))
    return {
        **pages[0],
        "totals": _totals([page["totals"] for page in pages], len(unheld)),
        "matching": sum(page["matching"] for page in pages) + len(unheld),
        "streams": _sorted(rows, query)[offset : offset + limit],
    }


def _sorted(rows: Mapping[str, Row], query: Mapping[str, str]) -> list[Row]:
    """As each replica sorts its own; those not used come last, by name."""
    by_name = [rows[name] for name in sorted(rows)]
    used = [row for row in by_name if row["state"] != _UNUSED]
    used.sort(
        key=lambda row: _key(row, query.get("sort", "state")),
        reverse=query.get("descending", "").lower() in ("1", "true", "on", "t", "y", "yes"),
    )
    return used + [row for row in by_name if row["state"] == _UNUSED]


def _key(row: Row, sort: str) -> Any:
    value = row[_FIELDS.get(sort, sort)]
    if sort == "state":
        return _WORST_FIRST.index(value)
    return math.inf if value is None else value


def _totals(of_each: Sequence[Mapping[str, Any]], unheld: int) -> dict[str, Any]:
    """Sums; the 99th percentile is that of the slowest replica, the median a mean of medians."""
    totals: dict[str, Any] = {name: sum(each[name] or 0 for each in of_each) for name in of_each[0]}
    totals["known"] += unheld
    totals["requests_per_second"] = round(totals["requests_per_second"], 3)
    busy = [each for each in of_each if each["latency_p50_ms"] is not None]
    weights = [each["requests_per_second"] or 1e-9 for each in busy]
    medians = [each["latency_p50_ms"] * weight for each, weight in zip(busy, weights, strict=True)]
    totals["latency_p50_ms"] = round(sum(medians) / sum(weights), 3) if busy else None
    totals["latency_p99_ms"] = max((each["latency_p99_ms"] for each in busy), default=None)
    return totals
