"""What a page says about one run, ready to be laid out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rotta.report.classes import Banks, banks, class_errors
from rotta.report.figures import Figure, balance_figure, entropy_figure, error_figure
from rotta.report.guard_log import GuardLog, guard_log
from rotta.report.incident_words import skipped_by, skipped_words
from rotta.report.marks import outline
from rotta.report.names import emphasised, method_name
from rotta.report.pictures import data_uri
from rotta.report.runs import Run
from rotta.report.series import colours, positions
from rotta.report.stays import stays
from rotta.report.tables import ComparisonTable, comparison_table
from rotta.report.verdict import verdict
from rotta.report.visits import visit_errors
from rotta.results import Result

_FACTS = {
    "source": "source model",
    "delta": "δ",
    "severity": "severity",
    "visits": "visits",
    "batch_size": "batch size",
    "limit": "images per domain at most",
    "seeds": "seeds",
}


@dataclass(frozen=True)
class Method:
    """A method of a run, as legends and the table of speeds show it."""

    label: str
    name: str
    colour: int
    strong: bool
    """Whether to bring it forward."""
    ms_per_batch: float


@dataclass(frozen=True)
class Section:
    """One run; what it did not record is none or empty."""

    title: str
    name: str
    verdict: str
    notice: str
    facts: Mapping[str, str]
    methods: Mapping[str, Method]
    """By label."""
    table: ComparisonTable
    num_seeds: int
    courses: Sequence[Figure]
    """The first over the whole width."""
    guards: GuardLog | None
    mark_shapes: Sequence[tuple[str, str]]
    """Outline, in a box of 14 pixels, and meaning of the marks on the first."""
    picture: str | None
    """Address of the picture of the stream."""
    banks: Banks | None
    classes: ComparisonTable | Figure | None
    visits: ComparisonTable | None
    configuration: Mapping[str, str]
    provenance: Mapping[str, str]


def section(run: Run) -> Section:
    """Tables, charts and words for one run."""
    result = run.result
    table = comparison_table(result)
    samples = positions(result)
    where = stays(result, int(samples[-1])) if len(samples) else []
    figures = (error_figure, balance_figure, entropy_figure) if len(samples) else ()
    guards = guard_log(result)
    return Section(
        title=run.title,
        name=run.name,
        verdict=verdict(table),
        notice=_notice(result),
        facts=_facts(run),
        methods=_methods(result),
        table=table,
        num_seeds=max(len(method.seeds) for method in result.methods.values()),
        courses=[figure(result, where) for figure in figures],
        guards=guards,
        mark_shapes=[(outline(action, 7, 7), words) for action, words in guards.actions]
        if guards
        else [],
        picture=data_uri(run.picture) if run.picture else None,
        banks=banks(result, where),
        classes=class_errors(result),
        visits=visit_errors(result),
        configuration={key: plain(value) for key, value in result.config.items()},
        provenance={key: plain(value) for key, value in result.provenance.items()},
    )


def plain(value: Any) -> str:
    """A recorded value as people read it.

    Example:
        >>> plain(["fog", "snow"]), plain({"torch": "2.13"}), plain(None), plain(math.inf)
        ('fog, snow', 'torch 2.13', '–', '∞')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(plain(entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:g}"
    return "–" if value is None else str(value)


def _facts(run: Run) -> dict[str, str]:
    facts = {words: plain(run.setup(key)) for key, words in _FACTS.items() if run.setup(key)}
    skipped = {
        method_name(label): words
        for label, method in run.result.methods.items()
        if (words := skipped_words(skipped_by(method)))
    }
    return facts | ({"skipped by": plain(skipped)} if skipped else {})


def _methods(result: Result) -> dict[str, Method]:
    given, strong = colours(list(result.methods)), emphasised(result.methods)
    return {
        label: Method(label, method_name(label), given[label], label in strong, scored.ms_per_batch)
        for label, scored in result.methods.items()
    }


def _notice(result: Result) -> str:
    """Empty for a run that got to its end."""
    if result.config.get("complete", True):
        return ""
    seeds = len(result.config.get("seeds") or [])
    unfinished = [
        method_name(label)
        for label in result.config.get("methods") or []
        if label not in result.methods or len(result.methods[label].seeds) < seeds
    ]
    missing = f" ({', '.join(unfinished)} unfinished)" if unfinished else ""
    return f"This run did not get to its end{missing}: the page shows what there is."
