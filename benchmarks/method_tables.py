"""The tables of methods for docs/, from the results of runs."""

from pathlib import Path

from markdown_table import table
from rotta.experiments.printed import printed
from rotta.experiments.store import load
from rotta.report.names import method_name
from rotta.results import MethodResult, Result

HERE = Path(__file__).parent
_ABLATION = {
    "rotta": "RoTTA",
    "rotta:robust_norm=false": "without RBN: statistics of the batch",
    "rotta:balanced_bank=false": "without CSTU: the last 64 samples",
    "rotta:robust_training=false": "without robust training: entropy minimisation",
    "rotta:lr=0.0": "without learning: statistics alone",
}


def _methods(name: str) -> dict[str, MethodResult]:
    return dict(Result.load(HERE / "results" / f"methods-{name}.json").methods)


def _measured(method: MethodResult) -> str:
    spread = "" if method.std is None else f" ± {method.std:.1f}"
    return f"{method.average_error:.1f}{spread} ({len(method.seeds)})"


def cifar() -> str:
    """Printed beside measured, both datasets."""
    both = [
        load(HERE.parent / "results" / f"table-{name}")[f"{name}-c"].methods
        for name in ("cifar10", "cifar100")
    ]
    rows = []
    for label in both[0]:
        cells = [method_name(label)]
        for dataset, methods in zip(("cifar10-c", "cifar100-c"), both, strict=True):
            paper = printed(dataset).get(label, {}).get("average")
            cells += [f"{paper:.1f}" if paper else "", _measured(methods[label])]
        rows.append(cells)
    headings = ["", "CIFAR10-C, paper", "measured (seeds)", "CIFAR100-C, paper", "measured (seeds)"]
    return table(headings, rows)


def digits() -> str:
    """Every seed of every method."""
    methods = _methods("digits-c") | _methods("digits-c-cotta")
    return _seeds({method_name(label): methods[label] for label in sorted(methods, key=_place)})


def ablation() -> str:
    """RoTTA without each of its parts."""
    methods = _methods("digits-c") | _methods("digits-c-ablation")
    seeds = methods["rotta:robust_norm=false"].seeds
    return _seeds({title: _only(methods[label], list(seeds)) for label, title in _ABLATION.items()})


def _only(method: MethodResult, seeds: list[str]) -> MethodResult:
    return MethodResult.over({int(seed): method.seeds[seed] for seed in seeds})


def _seeds(methods: dict[str, MethodResult]) -> str:
    numbers = list(next(iter(methods.values())).seeds)
    rows = []
    for title, method in methods.items():
        errors = [f"{method.seeds[seed].average_error:.1f}" for seed in numbers]
        rows.append([title, f"{method.average_error:.1f} ± {method.std:.1f}", *errors])
    return table(["", "mean", *(f"seed {seed}" for seed in numbers)], rows)


def _place(label: str) -> int:
    from rotta import METHODS

    return list(METHODS).index(label.split(":")[0])
