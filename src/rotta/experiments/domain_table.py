"""Tables of image domains: a source model per domain, adapted to all others in turn."""

from collections.abc import Callable, Sequence
from typing import Any

from rotta.experiments.cifar import COMPARED
from rotta.experiments.experiment import Blocks, Experiment, Presentation, Training, Variant
from rotta.experiments.measured import AVERAGE, average, entry, mean_of, method_result
from rotta.experiments.verdicts import agreement, said
from rotta.report.beside import Entry, Grid
from rotta.report.names import domain_name, method_name

Printed = dict[str, Any]


def domain_experiment(
    name: str,
    title: str,
    domains: Sequence[str],
    training: Callable[[str], Training],
    *,
    split: str,
    methods: tuple[str, ...] = COMPARED,
    paper: Printed | None = None,
) -> Experiment:
    """Every domain once as the source; the others follow one another in alphabetical order.

    Args:
        name: Of the experiment.
        title: Of the tables.
        domains: In alphabetical order.
        training: Of the source on a domain.
        split: Which images of the targets come in the stream.
        methods: To compare.
        paper: By method and source: errors by target, and ``average``.
    """

    def variant(source: str) -> Variant:
        trained = training(source)
        return Variant(
            name=source,
            dataset=trained.dataset,
            source=trained,
            methods=methods,
            order=tuple(domain for domain in domains if domain != source),
            split=split,
            image_size=trained.image_size,
        )

    def present(blocks: Blocks) -> Presentation:
        grids = [_averages(blocks, title, domains, methods, paper)]
        grids += [_of_method(blocks, title, domains, label, paper) for label in methods]
        agrees = agreement({name: cells[-1] for name, cells in grids[0].rows})
        return Presentation(tuple(grids), remarks=said((agrees, *_source_errors(blocks, domains))))

    return Experiment(name, title, tuple(variant(source) for source in domains), present)


def _averages(
    blocks: Blocks,
    title: str,
    domains: Sequence[str],
    methods: tuple[str, ...],
    paper: Printed | None,
) -> Grid:
    """Methods down, sources across: the error over all targets."""
    rows = []
    for label in methods:
        by_source = (paper or {}).get(label, {})
        cells = [
            average(blocks, source, label, by_source.get(source, {}).get(AVERAGE))
            for source in domains
        ]
        whole = [cell.printed for cell in cells if cell.printed is not None]
        mean = sum(whole) / len(whole) if whole else None
        rows.append((method_name(label), (*cells, mean_of(cells, mean))))
    columns = (*(f"from {domain_name(source)}" for source in domains), AVERAGE)
    return Grid("average", f"{title}: average error, %", "method", columns, tuple(rows))


def _of_method(
    blocks: Blocks, title: str, domains: Sequence[str], label: str, paper: Printed | None
) -> Grid:
    """Sources down, targets across."""
    rows = []
    for source in domains:
        by_target = (paper or {}).get(label, {}).get(source, {})
        found = method_result(blocks, source, label)
        cells = [
            Entry(applies=False)
            if target == source
            else entry(found, target, by_target.get(target))
            for target in domains
        ]
        cells.append(entry(found, printed=by_target.get(AVERAGE)))
        rows.append((domain_name(source), tuple(cells)))
    columns = (*(domain_name(target) for target in domains), AVERAGE)
    file = label.replace(":", "-").replace("=", "-")
    heading = f"{title}, {method_name(label)}: error, %"
    return Grid(file, heading, "source", columns, tuple(rows), best=False)


def _source_errors(blocks: Blocks, domains: Sequence[str]) -> tuple[str, ...]:
    errors = [
        f"{domain_name(source)} {blocks[source].config['source_error']:.1f} %"
        for source in domains
        if source in blocks
    ]
    if not errors:
        return ()
    return ("Errors of the sources on their own domain's test images: " + ", ".join(errors) + ".",)
