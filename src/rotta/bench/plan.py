"""What is measured, in which order, and for how long."""

from collections.abc import Sequence

from rotta.bench.cell import Cell
from rotta.bench.subjects import Role, Subject
from rotta.bench.timing import Budget
from rotta.bench.workload import BANK

BATCH_SIZES = (1, 8, 64, 256)


def full_plan(
    subjects: Sequence[Subject], batch_sizes: Sequence[int], seconds: float
) -> list[Cell]:
    """Everybody at every batch size, predicting, then also updating.

    Args:
        subjects: Whom.
        batch_sizes: Images per call.
        seconds: For each subject in each cell.
    """
    budget = Budget(seconds)
    adapting = [subject for subject in subjects if subject.role != "bare"]
    return [
        cell
        for batch in batch_sizes
        for cell in (
            Cell("predict", batch, subjects, budget),
            Cell("predict+update", batch, adapting, budget),
        )
    ]


def quick_plan(subjects: Sequence[Subject]) -> list[Cell]:
    """The two ratios that matter, predictions one at a time, and a look at the other methods."""

    def those(*roles: Role) -> list[Subject]:
        return [subject for subject in subjects if subject.role in roles]

    return [
        Cell("predict", 1, those("floor", "bare", "rotta"), Budget(0.5, most=60)),
        Cell("predict", BANK, those("floor", "bare", "rotta", "plain"), Budget(0.5, most=60)),
        Cell("predict+update", BANK, those("floor", "rotta", "plain"), Budget(3.0, most=20)),
        Cell("predict+update", BANK, those("other"), Budget(0.4, least=1, most=5)),
    ]
