"""The appendix's three tables: RoTTA on CIFAR100-C with one constant changed."""

from collections.abc import Mapping

from rotta.experiments.cifar import on_cifar
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import like_for_like, precision_remark
from rotta.experiments.printed import printed
from rotta.experiments.verdicts import agreement, best_is_default, said
from rotta.report.beside import Grid
from rotta.report.curves import Curves

_DATASET = "cifar100-c"


def sensitivity_experiment(name: str, symbol: str, labels: Mapping[str, str]) -> Experiment:
    """An experiment over the values of one constant.

    Args:
        name: Of the experiment, ``table-…`` and the name of the printed table.
        symbol: What the constant is called.
        labels: For each value as printed, the method.
    """

    def present(blocks: Blocks) -> Presentation:
        paper = printed(name.removeprefix("table-"))
        keys = {value: (_DATASET, label) for value, label in labels.items()}
        found = like_for_like(blocks, {key: paper[value] for value, key in keys.items()})
        cells = {value: found[key] for value, key in keys.items()}
        title = f"RoTTA on CIFAR100-C over {symbol}: average error, %"
        rows = tuple((value, (cell,)) for value, cell in cells.items())
        line = ("rotta", tuple(cells.values()))
        default = next(value for value, label in labels.items() if label == "rotta")
        return Presentation(
            (Grid("average", title, symbol, ("average",), rows),),
            (Curves("course", title, symbol, tuple(cells), (line,)),),
            said(
                (
                    best_is_default(cells, default),
                    agreement(cells),
                    precision_remark(blocks, keys.values()),
                )
            ),
        )

    title = f"Sensitivity of RoTTA to {symbol}"
    return Experiment(name, title, (on_cifar(_DATASET, tuple(labels.values())),), present)
