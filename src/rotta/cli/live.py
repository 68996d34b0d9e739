"""How a comparison looks while it goes on."""

from statistics import fmean

from rich.markup import escape
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from rotta.cli.console import Display, errors
from rotta.comparison import Failed, Finished, Look

_BAR_WIDTH = 24  # leaves room for a long label in 80 columns


class Live(Display):
    """A row per method on a terminal; elsewhere a line per finished walk.

    Args:
        labels: Of the methods.
        seeds: How many streams each of them walks along.
    """

    def __init__(self, labels: list[str], seeds: int) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[state]}"),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        )
        self._rows = {label: _Row(self._bar, label, seeds) for label in labels}
        self._images = self._bar.add_task("making images", total=None, visible=False, state="")

    def rest(self) -> None:
        """Show nothing, and have no thread that does, until there is news."""
        self._bar.stop()

    def images(self, done: int, total: int) -> None:
        """How far the making or fetching of images is; shown while it lasts."""
        self._bar.start()
        state = f"{done:,}/{total:,}"
        visible = done < total
        self._bar.update(self._images, completed=done, total=total, visible=visible, state=state)

    def look(self, look: Look) -> None:
        """Where a walk is."""
        self._bar.start()
        self._rows[look.label].look(look)

    def end(self, end: Finished | Failed) -> None:
        """What became of a walk."""
        if isinstance(end, Failed):
            line = f"[bold red]failed:[/] {end.label}, seed {end.seed}: {escape(end.reason)}"
            errors.print(line, highlight=False, soft_wrap=True)
            self._rows[end.label].give_up(end.seed)
            return
        self._rows[end.label].finish(end)
        if not errors.is_terminal:
            error, seconds = end.result.average_error, end.seconds
            line = f"{end.label}, seed {end.seed}: error {error:.1f} %, {seconds:.1f} s"
            errors.print(line, highlight=False, soft_wrap=True)


class _Row:
    """One method. Its clock runs only while it walks: walks take turns with other methods."""

    def __init__(self, bar: Bar, label: str, seeds: int) -> None:
        self._bar = bar
        self._task = bar.add_task(label, total=1, state="")
        self._seeds = seeds
        self._batches_before = 0
        self._seconds_before = 0.0
        self._errors: list[float] = []
        self._total = 0
        self._under_way: dict[int, Look] = {}
        self._speed = 0.0  # of those that are under way, or were last

    def look(self, look: Look) -> None:
        """Show the error of the walks that are under way, and how long all walks will take."""
        self._total = look.total
        self._under_way[look.seed] = look
        self._show(fmean(look.error for look in self._under_way.values()))

    def finish(self, end: Finished) -> None:
        """Show the mean error of the finished walks."""
        self._under_way.pop(end.seed, None)
        self._batches_before += self._total
        self._seconds_before += end.seconds
        self._errors.append(end.result.average_error)
        self._show(fmean(self._errors))

    def give_up(self, seed: int) -> None:
        """Forget a walk that failed."""
        self._under_way.pop(seed, None)

    def _show(self, error: float) -> None:
        walking = self._under_way.values()
        done = self._batches_before + sum(look.batches for look in walking)
        seconds = self._seconds_before + sum(look.seconds for look in walking)
        total = self._seeds * self._total
        state = f"{done:>{len(str(total))}}/{total}  {error:5.1f} %  {_clock(seconds)}"
        self._speed = sum(look.speed for look in walking) or self._speed
        if done < total and self._speed:
            state += f"  left {_clock((total - done) / self._speed)}"
        self._bar.update(self._task, completed=done, total=total, state=state)


def _clock(seconds: float) -> str:
    """``1:02:03``, or ``2:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
