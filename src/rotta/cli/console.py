"""Where the commands print, and how they show that something is going on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

output = Console()
errors = Console(stderr=True)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error; yields ``progress(done, total)``, to be called as work goes on."""
    with _bar() as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def described_bar(total: int) -> Iterator[Callable[[str], None]]:
    """A bar of ``total`` steps; yields ``advance(what)``, which also says what is being done."""
    with _bar() as bar:
        task = bar.add_task("starting", total=total)
        yield lambda what: bar.update(task, advance=1, description=what)


def _bar() -> Progress:
    """On a terminal only: in a file it would be noise."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def download_question(yes: bool) -> Callable[[str], bool] | None:
    """Whom to ask before a download: with ``--yes`` nobody, else the person at the terminal."""
    if yes:
        return _announce
    if sys.stdin.isatty():
        return lambda question: typer.confirm(question[0].upper() + question[1:])
    return None


def _announce(question: str) -> bool:
    errors.print(question.rstrip("?"), highlight=False)
    return True
