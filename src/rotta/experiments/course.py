"""Figures of all methods' errors over one property of the stream."""

from collections.abc import Mapping

from rotta.experiments.cifar import COMPARED
from rotta.experiments.experiment import Blocks, Experiment, Presentation, Variant
from rotta.experiments.measured import average
from rotta.report.beside import Grid
from rotta.report.curves import Curves
from rotta.report.names import method_name


def course_experiment(
    name: str, title: str, symbol: str, variants: Mapping[str, Variant]
) -> Experiment:
    """An experiment with a figure, and its values as a table.

    Args:
        name: Of the experiment.
        title: Of both.
        symbol: What the property is called.
        variants: For each value of it, the stream.
    """

    def present(blocks: Blocks) -> Presentation:
        lines = tuple(
            (label, tuple(average(blocks, variant.name, label) for variant in variants.values()))
            for label in COMPARED
        )
        rows = tuple((method_name(label), cells) for label, cells in lines)
        heading = f"{title}: average error, %"
        remark = "The paper shows this as a figure; its values are not in its source."
        return Presentation(
            (Grid("average", heading, "method", tuple(variants), rows),),
            (Curves("course", heading, symbol, tuple(variants), lines),),
            (remark,),
        )

    return Experiment(name, title, tuple(variants.values()), present)
