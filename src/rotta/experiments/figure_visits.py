"""Twenty visits of the fifteen corruptions: who lasts, and who is worse than the source then."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rotta.experiments.cifar import TITLES, on_cifar
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import (
    average,
    entry,
    method_result,
    over_common_seeds,
    per_visit,
    precision_remark,
)
from rotta.experiments.printed import printed
from rotta.experiments.verdicts import at_most, said
from rotta.report.beside import Grid
from rotta.report.curves import PALETTE, Curves, figure
from rotta.report.names import method_name
from rotta.report.picture_file import picture_path, save_picture
from rotta.report.series import colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_VISITS = 20
_SHOWN = (1, 2, 5, 10, 20)
_LASTING = "rotta-lasting"
# All images of one visit. The number is the same where walks are over fewer images, so that the
# method is: in a quick run, it starts over at every fifth visit.
_STARTING_OVER = "rotta:reset_every=150000"
_METHODS = (
    "source",
    "tent",
    "tent:guard=true",
    "rotta",
    "rotta:guard=true",
    _STARTING_OVER,
    _LASTING,
)
_GOALS = {"cifar10-c": 24.0, "cifar100-c": 35.0}
_MOST_LOST = 1.0  # points between the first visit and the last
_DPI = 200


def _present(blocks: Blocks) -> Presentation:
    verdicts = [verdict for dataset in TITLES for verdict in _verdicts(blocks, dataset)]
    rottas = [(d, label) for d in TITLES for label in _METHODS if label.startswith("rotta")]
    return Presentation(
        tuple(_table(blocks, dataset) for dataset in TITLES),
        tuple(_course(blocks, dataset) for dataset in TITLES),
        said((*verdicts, _published(), _about_starting_over(), precision_remark(blocks, rottas))),
        _draw,
    )


def _table(blocks: Blocks, dataset: str) -> Grid:
    paper = printed("visits")[dataset]
    rows = []
    for label in _METHODS:
        visits = per_visit(method_result(blocks, dataset, label), _VISITS)
        cells = (
            *(visits[number - 1] for number in _SHOWN),
            average(blocks, dataset, label, paper.get(label)),
        )
        rows.append((method_name(label), cells))
    heads = *(f"visit {number}" for number in _SHOWN), "average"
    title = f"{TITLES[dataset]}: error on visits 1 to {_VISITS}, %"
    return Grid(f"{dataset}-visits", title, "method", heads, tuple(rows))


def _course(blocks: Blocks, dataset: str) -> Curves:
    lines = tuple(
        (label, per_visit(method_result(blocks, dataset, label), _VISITS)) for label in _METHODS
    )
    numbers = tuple(str(number) for number in range(1, _VISITS + 1))
    title = f"{TITLES[dataset]}: mean error over the corruptions on each visit, %"
    return Curves(f"{dataset}-visits", title, "visit", numbers, lines)


def _verdicts(blocks: Blocks, dataset: str) -> Iterator[str]:
    """What is wanted of the method that lasts, and whether it is so."""
    found = over_common_seeds(blocks, [(dataset, _LASTING), (dataset, "rotta")])
    lasting, plain = found.values()
    visits = per_visit(lasting, _VISITS)
    first, of_plain = visits[0].value, per_visit(plain, 1)[0].value
    name = f"{TITLES[dataset]}: {method_name(_LASTING)}"
    limit = None if first is None else first + _MOST_LOST
    ends = f"{name} ends, on visit {_VISITS}, no more than a point above where it began"
    yield at_most(ends, visits[-1], limit)
    mean = entry(lasting)
    yield at_most(f"{name} is on average as good as RoTTA on its first visit", mean, of_plain)
    yield at_most(f"{name} reaches the goal on average", mean, _GOALS[dataset])


def _published() -> str:
    paper = printed("visits")
    source, rotta, best = (
        _both({dataset: paper[dataset][name] for dataset in TITLES})
        for name in ("source", "rotta", "best remedy")
    )
    return (
        f"*printed* is here what was {paper['source']}, on average: RoTTA {rotta}, the source "
        f"{source}, the best remedy {best}."
    )


def _both(errors: Mapping[str, float]) -> str:
    return " and ".join(f"{error} ({TITLES[dataset]})" for dataset, error in errors.items())


def _about_starting_over() -> str:
    return (
        f"{method_name(_STARTING_OVER)} starts over after as many samples as one visit of all "
        "images has; in a quick run that is every fifth visit."
    )


def _draw(curves: Curves, path: Path) -> None:
    save_picture(picture_path(path), partial(_figure, curves), _DPI)


def _figure(curves: Curves) -> "Figure":
    """As other figures are, but for the source: it learns nothing, and its line is dashed."""
    drawing = figure(curves)
    colour = PALETTE[colours([label for label, _ in curves.lines])["source"]]
    for line in drawing.axes[0].lines:
        if line.get_color() == colour and line.get_linestyle() == "-":
            line.set(linestyle="--", marker="")
    return drawing


EXPERIMENT = Experiment(
    "figure-visits",
    "Twenty visits of the fifteen corruptions",
    tuple(on_cifar(dataset, _METHODS, visits=_VISITS) for dataset in TITLES),
    _present,
)
