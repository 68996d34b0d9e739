"""All methods in the four settings of the paper's first table."""

from rotta.experiments.cifar import COMPARED, TITLES, on_cifar
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import average
from rotta.report.beside import Grid
from rotta.report.names import method_name, setting_name
from rotta.streams import SETTINGS


def _name(dataset: str, setting: str) -> str:
    return f"{dataset}, {setting}"


def _present(blocks: Blocks) -> Presentation:
    grids = [
        Grid(
            dataset,
            f"{title}: average error, %",
            "method",
            tuple(setting_name(setting) for setting in SETTINGS),
            tuple(
                (
                    method_name(label),
                    tuple(average(blocks, _name(dataset, s), label) for s in SETTINGS),
                )
                for label in COMPARED
            ),
        )
        for dataset, title in TITLES.items()
    ]
    remark = (
        "The paper tells the settings apart in words; its errors are of the practical one. In "
        "stationary settings a method begins every corruption afresh."
    )
    return Presentation(tuple(grids), remarks=(remark,))


EXPERIMENT = Experiment(
    "table-settings",
    "All methods in the four settings",
    tuple(
        on_cifar(dataset, COMPARED, name=_name(dataset, setting), setting=setting)
        for setting in SETTINGS
        for dataset in TITLES
    ),
    _present,
)
