"""Figures of all methods' errors over one property of the stream."""

from collections.abc import Mapping
from dataclasses import dataclass

from rotta.experiments.cifar import COMPARED
from rotta.experiments.experiment import Blocks, Experiment, Presentation, Variant
from rotta.experiments.measured import average, precision_remark
from rotta.experiments.verdicts import said, trends, where_best
from rotta.report.beside import Grid
from rotta.report.curves import Curves
from rotta.report.names import method_name


@dataclass(frozen=True)
class Claims:
    """What the paper says about its figure."""

    better: tuple[str, ...]
    """Methods whose error falls from the first value to the last."""
    worse: tuple[str, ...]
    """Those whose error rises."""
    best_everywhere: bool = False
    """Whether RoTTA is the best at every value."""
    about: str = ""
    """How it was measured."""


def course_experiment(
    name: str, title: str, symbol: str, variants: Mapping[str, Variant], claims: Claims
) -> Experiment:
    """An experiment with a figure, and its values as a table.

    Args:
        name: Of the experiment.
        title: Of both.
        symbol: What the property is called.
        variants: For each value of it, the stream.
        claims: To be held beside what is measured.
    """

    def present(blocks: Blocks) -> Presentation:
        lines = tuple(
            (label, tuple(average(blocks, variant.name, label) for variant in variants.values()))
            for label in COMPARED
        )
        rows = tuple((method_name(label), cells) for label, cells in lines)
        heading = f"{title}: average error, %"
        errors = {label: dict(zip(variants, cells, strict=True)) for label, cells in rows}
        named = [list(map(method_name, labels)) for labels in (claims.better, claims.worse)]
        rottas = [(variant.name, "rotta") for variant in variants.values()]
        remarks = (
            "The paper shows this as a figure; its values are not in its source.",
            claims.about,
            trends(errors, *named),
            where_best(errors, method_name("rotta"), claimed=claims.best_everywhere),
            precision_remark(blocks, rottas),
        )
        return Presentation(
            (Grid("average", heading, "method", tuple(variants), rows),),
            (Curves("course", heading, symbol, tuple(variants), lines),),
            said(remarks),
        )

    return Experiment(name, title, tuple(variants.values()), present)
