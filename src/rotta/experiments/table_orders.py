"""Ten orders of the corruptions, sampled correlated and independently."""

from rotta.experiments.cifar import COMPARED, TITLES, on_cifar
from rotta.experiments.experiment import Blocks, Experiment, Presentation
from rotta.experiments.measured import (
    Key,
    like_for_like,
    mean_of,
    per_domain,
    precision_remark,
)
from rotta.experiments.printed import printed
from rotta.experiments.verdicts import agreement, said
from rotta.report.beside import Entry, Grid
from rotta.report.curves import Curves
from rotta.report.names import method_name
from rotta.streams import ORDERS

_SETTINGS = {"independent": "continual", "correlated": "ptta"}


def _name(dataset: str, sampling: str, order: int) -> str:
    return f"{dataset}, {sampling}, order {order}"


def _keys(dataset: str, sampling: str, label: str) -> list[Key]:
    return [(_name(dataset, sampling, order), label) for order in range(len(ORDERS))]


def _mean(blocks: Blocks, dataset: str, sampling: str, label: str) -> Entry:
    paper = printed("orders")[label][dataset] if sampling == "correlated" else None
    cells = like_for_like(blocks, dict.fromkeys(_keys(dataset, sampling, label)))
    return mean_of(list(cells.values()), paper)


def _means(blocks: Blocks, name: str, sampling: str) -> Grid:
    return Grid(
        name,
        f"Mean of ten orders, {sampling}: average error, %",
        "method",
        tuple(TITLES.values()),
        tuple(
            (
                method_name(label),
                tuple(_mean(blocks, dataset, sampling, label) for dataset in TITLES),
            )
            for label in COMPARED
        ),
    )


def _present(blocks: Blocks) -> Presentation:
    averages = _means(blocks, "averages", "correlated")
    independent = _means(blocks, "averages-independent", "independent")
    figures = [
        Curves(
            f"{dataset}-ten-orders",
            f"{title}: mean error of ten orders, %",
            "sampling",
            tuple(_SETTINGS),
            tuple(
                (label, tuple(_mean(blocks, dataset, sampling, label) for sampling in _SETTINGS))
                for label in COMPARED
            ),
            kind="bars",
        )
        for dataset, title in TITLES.items()
    ]
    single = [
        per_domain(
            blocks,
            _name(dataset, "correlated", order),
            COMPARED,
            name=f"{dataset}-order-{order}",
            title=f"{title}, order {order}, correlated: error per corruption, %",
        )
        for dataset, title in TITLES.items()
        for order in range(len(ORDERS))
        if _name(dataset, "correlated", order) in blocks
    ]
    slips = (
        "Slips in print: the row of PL repeats that of BN, and Source's average should be 45.0. "
        "The appendix's tables per order have no printed values in the paper's source."
    )
    agrees = agreement(
        {
            f"{method} on {title}": cell
            for method, cells in averages.rows
            for title, cell in zip(TITLES.values(), cells, strict=True)
        }
    )
    measured = [key for dataset in TITLES for key in _keys(dataset, "correlated", "rotta")]
    return Presentation(
        (averages, independent, *single),
        tuple(figures),
        said((agrees, precision_remark(blocks, measured), slips)),
    )


EXPERIMENT = Experiment(
    "table-orders",
    "Ten orders of the corruptions, correlated and independent",
    tuple(
        on_cifar(
            dataset,
            COMPARED,
            name=_name(dataset, sampling, order),
            setting=_SETTINGS[sampling],
            order=order,
        )
        for sampling in ("correlated", "independent")
        for order in range(len(ORDERS))
        for dataset in TITLES
    ),
    _present,
)
