"""What a result says about the single visits, where the domains came round several times."""

import statistics

import numpy as np

from rotta.report.tables import ComparisonTable, comparison_table
from rotta.results import MethodResult, Result

_MOST_COLUMNS = 20


def visit_errors(result: Result) -> ComparisonTable | None:
    """Errors of methods on each visit, or on some of very many; none if there was only one."""
    table = comparison_table(result, _per_visit)
    return table if len(table.domains) > 1 else None


def _per_visit(method: MethodResult) -> dict[str, float]:
    """Mean over the seeds; nothing in files that do not have it."""
    visits = min((len(seed.per_visit) for seed in method.seeds.values()), default=0)
    shown = np.unique(np.linspace(0, visits - 1, min(visits, _MOST_COLUMNS)).round().astype(int))
    return {
        f"visit {at + 1}": statistics.fmean(seed.per_visit[at] for seed in method.seeds.values())
        for at in shown.tolist()
    }
