"""The courses of a run's methods along the stream, as figures."""

from collections.abc import Sequence
from dataclasses import dataclass

from rotta.report.charts import FLAT, HALF, WIDE, Chart, line_chart
from rotta.report.marks import marks
from rotta.report.series import Course, positions, series
from rotta.report.svg import Stay
from rotta.results import Result, SeedResult


@dataclass(frozen=True)
class Figure:
    """A chart with its heading and what to see in it."""

    title: str
    caption: str
    chart: Chart
    wide: bool = False


def error_figure(result: Result, stays: Sequence[Stay]) -> Figure:
    """The error in each window."""
    title = "Error over time"
    curves = list(series(result, _error))
    acted = marks(result)
    chart = line_chart(title, curves, positions(result), stays, size=WIDE, unit=" %", marks=acted)
    caption = "Share of wrong predictions in each window of the stream."
    if acted:
        caption += " Marks are where a guard did something."
    return Figure(title, caption, chart, wide=True)


def balance_figure(result: Result, stays: Sequence[Stay]) -> Figure:
    """How evenly the predictions fall on the classes."""
    title = "Balance of the predicted classes"
    curves = list(series(result, _balance))
    chart = line_chart(title, curves, positions(result), stays, size=HALF, y_max=1.0)
    return Figure(title, "1: all classes equally often. 0: always the same one, a collapse.", chart)


def entropy_figure(result: Result, stays: Sequence[Stay]) -> Figure:
    """How uncertain the predictions are."""
    title = "Entropy of the predictions"
    curves = list(series(result, _entropy))
    chart = line_chart(title, curves, positions(result), stays, size=HALF)
    return Figure(title, "Mean, in nats. 0: certain of every answer, right or wrong.", chart)


def age_figure(result: Result, stays: Sequence[Stay], *, wide: bool) -> Figure:
    """How old the samples in the banks are; the result holds at least one bank."""
    title = "Mean age of the samples held"
    curves = list(series(result, _age))
    chart = line_chart(title, curves, positions(result), stays, size=FLAT if wide else HALF)
    return Figure(title, "In samples that have come since.", chart, wide)


def _error(seed: SeedResult) -> Course:
    return seed.windows.samples, seed.windows.error


def _balance(seed: SeedResult) -> Course:
    return seed.windows.samples, seed.windows.balance


def _entropy(seed: SeedResult) -> Course:
    return seed.windows.samples, seed.windows.entropy


def _age(seed: SeedResult) -> Course | None:
    return (seed.bank.samples, seed.bank.age) if seed.bank else None
