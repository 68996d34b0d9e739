"""Join runs over the same streams that were made side by side: one result of all their walks.

    python benchmarks/merge_runs.py benchmarks/results/methods-cifar10-c.json RUN/ RUN/ …

Runs must agree in everything but methods and seeds. The joined result says that its walks shared a
machine: their times tell nothing about speed.
"""

import sys
from pathlib import Path

from rotta.adapters import METHODS
from rotta.results import MethodResult, Result, SeedResult

_MAY_DIFFER = {"methods", "options", "seeds", "complete", "failed"}


def merged(results: list[Result]) -> Result:
    """All walks of all results; methods in the order of the tables.

    Raises:
        ValueError: They were configured differently, or a walk is in two of them.
    """
    settings = [{k: v for k, v in r.config.items() if k not in _MAY_DIFFER} for r in results]
    if any(setting != settings[0] for setting in settings):
        raise ValueError("the runs differ in more than methods and seeds")
    walks: dict[str, dict[int, SeedResult]] = {}
    for result in results:
        for label, method in result.methods.items():
            for seed, walk in method.seeds.items():
                if int(seed) in walks.setdefault(label, {}):
                    raise ValueError(f"{label}, seed {seed}, is in two of the runs")
                walks[label][int(seed)] = walk
    labels = sorted(walks, key=lambda label: (list(METHODS).index(label.split(":")[0]), label))
    methods = {label: MethodResult.over(dict(sorted(walks[label].items()))) for label in labels}
    seeds = sorted({seed for label in labels for seed in walks[label]})
    options = {label: o for r in results for label, o in r.config.get("options", {}).items()}
    config = {**settings[0], "methods": labels, "options": options, "seeds": seeds}
    shared = "walks ran side by side on one machine: their times tell nothing about speed"
    return Result(methods, config, {**results[0].provenance, "note": shared})


if __name__ == "__main__":
    target, *runs = map(Path, sys.argv[1:])
    merged([Result.load(run / "result.json") for run in runs]).save(target)
