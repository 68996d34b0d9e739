"""Measured errors, put beside printed ones."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from rotta.adapters.choice import parse_methods
from rotta.experiments.experiment import Blocks
from rotta.report.beside import Entry, Grid
from rotta.report.names import domain_name, method_name, short_domain_names
from rotta.results import MethodResult

AVERAGE = "average"


def method_result(blocks: Blocks, variant: str, label: str) -> MethodResult | None:
    """What a method scored, in float32 or, failing that, in another precision."""
    found = stored_label(blocks, variant, label)
    return None if found is None else blocks[variant].methods[found]


def stored_label(blocks: Blocks, variant: str, label: str) -> str | None:
    """What the walks of a method are called, in float32 or, failing that, another precision."""
    stored = blocks[variant].methods if variant in blocks else {}
    (choice,) = parse_methods(label)
    if choice.label in stored:
        return choice.label
    return next((name for name in stored if _in_float32(name) == choice.label), None)


def average(blocks: Blocks, variant: str, label: str, printed: float | None = None) -> Entry:
    """The mean error over all domains."""
    return entry(method_result(blocks, variant, label), printed=printed)


Key = tuple[str, str]
"""A variant and a method."""


def like_for_like(blocks: Blocks, printed: Mapping[Key, float | None]) -> dict[Key, Entry]:
    """Average errors to be compared with each other: over the seeds that all of them have.

    Args:
        blocks: Results.
        printed: What is compared, and what the paper prints of it.
    """
    found = over_common_seeds(blocks, printed)
    return {key: entry(method, printed=printed[key]) for key, method in found.items()}


def over_common_seeds(blocks: Blocks, keys: Iterable[Key]) -> dict[Key, MethodResult | None]:
    """What methods scored, over the seeds that all of those have which have any."""
    found = {key: method_result(blocks, *key) for key in keys}
    seeds = [set(method.seeds) for method in found.values() if method is not None]
    common = set.intersection(*seeds) if seeds else set()
    return {key: _over(method, common) for key, method in found.items()}


def _over(method: MethodResult | None, seeds: set[str]) -> MethodResult | None:
    if method is None or not seeds:
        return None
    return MethodResult.over({int(seed): method.seeds[seed] for seed in sorted(seeds, key=int)})


def precision_remark(blocks: Blocks, keys: Iterable[Key]) -> str:
    """Which of the cells of a table were not measured in float32, if only some were not."""
    keys = list(keys)
    labels = {key: stored_label(blocks, *key) for key in keys}
    half = [key for key, label in labels.items() if label is not None and "precision=" in label]
    if not half:
        return ""
    whole = [key for key, label in labels.items() if label is not None and key not in half]
    effect = "over the main tables that changes RoTTA by 0.1 points"
    if not whole:
        return f"RoTTA computed in float16 here; {effect}."
    few, precision = (half, "float16") if len(half) < len(whole) else (whole, "float32")
    others = "float32" if precision == "float16" else "float16"
    names = "; ".join(_cell_name(key, keys) for key in few)
    return f"In {precision}: {names}. All others in {others}; {effect}."


def _cell_name(key: Key, keys: Sequence[Key]) -> str:
    """By what tells it from the others."""
    variant, label = key
    if len({name for name, _ in keys}) == 1:
        return method_name(label)
    return variant if len({name for _, name in keys}) == 1 else f"{method_name(label)} on {variant}"


def entry(
    method: MethodResult | None, domain: str = AVERAGE, printed: float | None = None
) -> Entry:
    """One cell: an error in one domain, or on average."""
    if method is None:
        return Entry(printed=printed)
    if domain == AVERAGE:
        return Entry(method.average_error, method.std, len(method.seeds), printed)
    return Entry(method.per_domain.get(domain), None, len(method.seeds), printed)


def per_visit(method: MethodResult | None, visits: int) -> tuple[Entry, ...]:
    """The mean error over all domains each time that they came round, the first visit first."""
    seeds = [] if method is None else [list(seed.per_visit) for seed in method.seeds.values()]
    return tuple(
        _over_seeds([errors[visit] for errors in seeds if visit < len(errors)])
        for visit in range(visits)
    )


def _over_seeds(errors: Sequence[float]) -> Entry:
    if not errors:
        return Entry()
    return Entry(fmean(errors), stdev(errors) if len(errors) > 1 else None, len(errors))


def mean_of(entries: Sequence[Entry], printed: float | None = None) -> Entry:
    """The mean of cells, missing where one of them is."""
    values = [entry.measured for entry in entries if entry.measured is not None]
    if len(values) < len(entries) or not values:
        return Entry(printed=printed)
    return Entry(fmean(values), None, min(entry.seeds for entry in entries), printed)


def per_domain(
    blocks: Blocks,
    variant: str,
    methods: Sequence[str],
    *,
    name: str,
    title: str,
    printed: Mapping[str, Mapping[str, float]] | None = None,
) -> Grid:
    """Methods down, domains across, as the paper's main tables are."""
    block = blocks.get(variant)
    order = block.config["order"] if block else list(next(iter((printed or {"": {}}).values())))
    domains = [*(domain for domain in order if domain != AVERAGE), AVERAGE]
    rows = []
    for label in methods:
        paper = (printed or {}).get(label, {})
        found = method_result(blocks, variant, label)
        cells = tuple(entry(found, domain, paper.get(domain)) for domain in domains)
        rows.append((method_name(label), cells))
    names = short_domain_names(domains)
    return Grid(name, title, "method", tuple(domain_name(short) for short in names), tuple(rows))


def _in_float32(label: str) -> str:
    (choice,) = parse_methods(label)
    return ":".join(part for part in choice.label.split(":") if not part.startswith("precision="))
