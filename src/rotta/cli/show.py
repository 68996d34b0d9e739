"""``rotta list``: what there is."""

from collections.abc import Callable, Iterable
from typing import Annotated

import typer
from rich.table import Table

from rotta.cli.console import output
from rotta.registry import lookup

Row = tuple[str, ...]


def show(
    what: Annotated[
        str | None,
        typer.Argument(help="corruptions, datasets, sources, streams or methods; all if left out."),
    ] = None,
) -> None:
    """Show what there is: corruptions, datasets, source models, streams, methods."""
    listings = [what] if what else list(_LISTINGS)
    for name in listings:
        headings, rows = lookup(_LISTINGS, name, "list")
        table = Table(title=name, title_justify="left", title_style="bold", box=None)
        for column, heading in enumerate(headings):
            table.add_column(heading, no_wrap=column == 0)  # names are there to be copied
        for row in rows():
            table.add_row(*row)
        output.print(table)
        output.print()


def _corruptions() -> Iterable[Row]:
    from rotta.corruptions import CORRUPTIONS

    for name, function in CORRUPTIONS.items():
        yield name, function.__module__.rsplit(".", 1)[-1], _summary(function.__doc__)


def _datasets() -> Iterable[Row]:
    from rotta.datasets import DATASETS

    for name, entry in DATASETS.items():
        yield name, "/".join(entry.splits), entry.description


def _sources() -> Iterable[Row]:
    from rotta.models import SOURCES
    from rotta.models.sources import is_here

    for name, source in SOURCES.items():
        here = "yes" if is_here(source) else "no"
        yield name, source.arch, source.dataset, f"{source.clean_error:.2f} %", here, source.about


def _streams() -> Iterable[Row]:
    from rotta.streams import ARRIVALS, SETTINGS

    for name, setting in SETTINGS.items():
        distribution = "continually changing" if setting.changing else "stationary"
        sampling = "correlated" if setting.correlated else "independent"
        yield name, "setting", f"{setting.title}: {distribution}, {sampling}"
    for name, arrival in ARRIVALS.items():
        yield name, "arrival", arrival.about


def _methods() -> Iterable[Row]:
    from rotta.adapters import METHODS

    for name, method in METHODS.items():
        yield name, _summary(method.__doc__)


def _summary(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n\n")[0].replace("\n", " ")


_LISTINGS: dict[str, tuple[Row, Callable[[], Iterable[Row]]]] = {
    "corruptions": (("name", "kind", "what it does"), _corruptions),
    "datasets": (("name", "splits", "what it is"), _datasets),
    "sources": (("name", "arch", "trained on", "error", "here", "how"), _sources),
    "streams": (("name", "kind", "what it is"), _streams),
    "methods": (("name", "what it does"), _methods),
}
