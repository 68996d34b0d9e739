"""All methods in the four settings of the paper's first table."""

from rotta.experiments.by_setting import grids, variants
from rotta.experiments.cifar import COMPARED
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.streams import SETTINGS


def _present(blocks: Blocks) -> Presentation:
    remark = (
        "The paper tells the settings apart in words; its errors are of the practical one. In "
        "stationary settings a method begins every corruption afresh."
    )
    return Presentation(grids(blocks, COMPARED, SETTINGS), remarks=(remark,))


EXPERIMENT = Experiment(
    "table-settings",
    "All methods in the four settings",
    variants(COMPARED, SETTINGS),
    _present,
)
