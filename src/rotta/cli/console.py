"""Where the commands print, and how they show that something is going on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

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


def say_what_begins(text: str) -> None:
    """Print a line where no bar will show that something goes on; results are not mixed with it."""
    if not errors.is_terminal:
        errors.print(text, markup=False, highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning, apart from the results."""
    errors.print(f"warning: {text}", markup=False, highlight=False, soft_wrap=True)


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


class Display:
    """Something with a bar, which is gone when the block is left."""

    _bar: Bar

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()


class Stopped(Exception):
    """Somebody pressed Ctrl-C; the message says what is kept."""


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
