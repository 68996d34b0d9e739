"""Measured errors, put beside printed ones."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from rotta.adapters.choice import parse_methods
from rotta.experiments.experiment import Blocks
from rotta.report.beside import Entry, Grid
from rotta.report.names import domain_name, method_name, short_domain_names
from rotta.results import MethodResult

AVERAGE = "average"


def method_result(blocks: Blocks, variant: str, label: str) -> MethodResult | None:
    """What a method scored, in float32 or, failing that, in another precision."""
    block = blocks.get(variant)
    if block is None:
        return None
    if label in block.methods:
        return block.methods[label]
    others = (name for name in block.methods if _in_float32(name) == label)
    return next((block.methods[name] for name in others), None)


def average(blocks: Blocks, variant: str, label: str, printed: float | None = None) -> Entry:
    """The mean error over all domains."""
    return entry(method_result(blocks, variant, label), printed=printed)


def entry(
    method: MethodResult | None, domain: str = AVERAGE, printed: float | None = None
) -> Entry:
    """One cell: an error in one domain, or on average."""
    if method is None:
        return Entry(printed=printed)
    if domain == AVERAGE:
        return Entry(method.average_error, method.std, len(method.seeds), printed)
    return Entry(method.per_domain.get(domain), None, len(method.seeds), printed)


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
