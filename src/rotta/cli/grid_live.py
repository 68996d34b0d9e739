"""How experiments look while they are run."""

import math
from typing import Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from rotta.cli.console import Display, errors
from rotta.comparison import Look
from rotta.experiments.engines import Broken
from rotta.experiments.tasks import SourceTask, Walk, Walked


class GridLive(Display):
    """A bar over all walks with a line of what is under way; elsewhere a line per finished walk.

    Args:
        walks: How many are to be done.
    """

    def __init__(self, walks: int) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        )
        self._walks, self._done = walks, 0
        self._task = self._bar.add_task("walks", total=walks, state="")

    def __enter__(self) -> Self:
        if self._walks:
            self._bar.start()
        return self

    def look(self, look: Look) -> None:
        """Show where one of the walks is."""
        state = f"{look.label}, seed {look.seed}: {look.batches} of {look.total} batches"
        if math.isfinite(look.error):
            state += f", error {look.error:.1f} %"
        self._bar.update(self._task, state=escape(state))

    def end(self, task: Walk | SourceTask, end: Walked | float | Broken) -> None:
        """Say what became of a task."""
        if isinstance(task, SourceTask):
            name = f"source {task.training.name}"
            told = f"{end:.1f} % error on its own test images" if isinstance(end, float) else ""
        else:
            self._done += 1
            name = f"{task.variant.name}: {task.method}, seed {task.seed}"
            error = end.result.average_error if isinstance(end, Walked) else 0.0
            told = f"error {error:.1f} % ({self._done} of {self._walks})"
        if isinstance(end, Broken):
            told = f"failed: {end.reason}\n{end.traceback}"
        self._bar.update(self._task, completed=self._done)
        errors.print(escape(f"{name}: {told}"), highlight=False, soft_wrap=True)
