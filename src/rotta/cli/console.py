"""Where the commands print, and how they show that something is going on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from rotta.progress import Progress

output = Console()
errors = Console(stderr=True)


def say(text: str) -> None:
    """Print a line as it is: a path may look like markup, and should be easy to copy."""
    output.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Yield ``progress(done, total)``, to be called as work goes on.

    The bar appears with the first call: a question asked before that stays readable.
    """
    bar = _bar()
    task = bar.add_task(what, total=None)

    def progress(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        bar.stop()


class StreamBar:
    """A bar for a walk along a stream, in which images may have to be made or fetched first."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._walk = bar.add_task("loading", total=None)
        self._images = bar.add_task("making images", total=None, visible=False)

    def images(self, done: int, total: int) -> None:
        """How far the making or fetching of images is; shown while it lasts."""
        self._bar.start()
        self._bar.update(self._images, completed=done, total=total, visible=done < total)

    def batch(self, number: int, total: int, what: str) -> None:
        """The batch that has been done, of how many, and what to say about it."""
        self._bar.start()
        self._bar.update(self._walk, completed=number + 1, total=total, description=what)


@contextmanager
def stream_bar() -> Iterator[StreamBar]:
    """Yield a :class:`StreamBar`, which appears when there is something to show."""
    bar = _bar()
    try:
        yield StreamBar(bar)
    finally:
        bar.stop()


def _bar() -> Bar:
    """On a terminal only: in a file it would be noise."""
    return Bar(
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
