"""What guards did in a run, event by event, and what was skipped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rotta.report.incident_words import DONE, events_of, incident_words, skipped_by
from rotta.report.names import domain_name, method_name
from rotta.results import GuardEvent, MethodResult, Result

_MOST_ROWS = 20  # of a method
_DECIDES = "lost belief"  # the signal that a guard goes by


@dataclass(frozen=True)
class LogRow:
    """One event, as the table shows it."""

    method: str
    seed: str
    batch: str
    domain: str
    action: str
    cause: str
    lost_belief: str
    rate: str


@dataclass(frozen=True)
class MethodLog:
    """One method's events."""

    rows: Sequence[LogRow]
    """The first of them."""
    more: int
    """How many are left out."""


@dataclass(frozen=True)
class GuardLog:
    """What befell the methods of a run."""

    summaries: Sequence[tuple[str, str]]
    """A method and what befell it, in words."""
    actions: Sequence[tuple[str, str]]
    """Those that occur, in themselves and in words."""
    logs: Sequence[MethodLog]
    """Of the methods whose guards did anything."""
    skipped: Sequence[tuple[str, str, int]]
    """Method, reason and count."""


def guard_log(result: Result) -> GuardLog | None:
    """All of it; none if no guard did anything and nothing was skipped."""
    acted = {label: method for label, method in result.methods.items() if events_of(method)}
    skipped = [
        (method_name(label), reason, count)
        for label, method in result.methods.items()
        for reason, count in skipped_by(method).items()
    ]
    if not acted and not skipped:
        return None
    occurring = {event.action for method in acted.values() for event in events_of(method)}
    return GuardLog(
        summaries=[(method_name(label), words) for label, words in incident_words(result).items()],
        actions=[(action, words) for action, words in DONE.items() if action in occurring],
        logs=[_log(label, method) for label, method in acted.items()],
        skipped=skipped,
    )


def event_words(label: str, seed: str, event: GuardEvent) -> str:
    """One event in a line, for whoever points at its mark."""
    row = _row(label, seed, event)
    lost = f" {row.lost_belief}" if event.cause == _DECIDES else ""
    return (
        f"{row.method}, seed {seed}, batch {row.batch}, {row.domain}: "
        f"{row.action} ({row.cause}{lost}), rate × {row.rate}"
    )


def _log(label: str, method: MethodResult) -> MethodLog:
    rows = list(_rows(label, method))
    return MethodLog(rows[:_MOST_ROWS], len(rows[_MOST_ROWS:]))


def _rows(label: str, method: MethodResult) -> Iterator[LogRow]:
    for seed, walk in method.seeds.items():
        for event in walk.events:
            yield _row(label, seed, event)


def _row(label: str, seed: str, event: GuardEvent) -> LogRow:
    lost = event.signals.get(_DECIDES)
    return LogRow(
        method=method_name(label),
        seed=seed,
        batch=f"{event.batch:,}",
        domain=domain_name(event.domain),
        action=DONE.get(event.action, event.action),
        cause=event.cause,
        lost_belief="–" if lost is None else f"{lost:.2f}",
        rate=f"{event.rate:g}",
    )
