"""The command line: one file per command, each thin."""

import atexit
import gc
import io
import signal
import sys
from collections.abc import Callable

import typer

from rotta.cli import bench, corrupt, report, reproduce, run, serve, show, stream, train
from rotta.cli.allocator import keep_freed_memory
from rotta.cli.console import Stopped, errors
from rotta.cli.help_page import Command, Group
from rotta.versions import __version__

_INTERRUPTED = 130  # what the command line ends with after Ctrl-C

app = typer.Typer(
    name="rotta",
    cls=Group,
    help="Practical test-time adaptation: streams that drift, and models that keep up.",
    epilog="Start with `rotta run`: built-in data, no download. Then `rotta list`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
) -> None:
    if version:
        typer.echo(f"rotta {__version__}")
        raise typer.Exit


_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "reproduce": reproduce.reproduce,
    "report": report.report,
    "list": show.show,
    "stream": stream.stream,
    "corrupt": corrupt.corrupt,
    "train": train.train,
    "bench": bench.bench,
    "serve": serve.serve,
}
for _name, _command in _COMMANDS.items():
    app.command(_name, cls=Command)(_command)


def main() -> None:
    """Run the command; a user's mistake ends in one sentence and exit code 2."""
    for end in (sys.stdout, sys.stderr):
        if isinstance(end, io.TextIOWrapper):
            end.reconfigure(errors="replace")  # a terminal without δ and █ is no reason to stop
    keep_freed_memory()
    atexit.register(gc.freeze)  # or the last second goes into looking for cycles
    try:
        app()
    except (ValueError, OSError, ModuleNotFoundError) as error:
        errors.print(f"[bold red]error:[/] {_plain(error)}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except Stopped as end:
        _stop_undisturbed()
        errors.print(f"stopped: {_plain(end)}", highlight=False, soft_wrap=True)
        sys.exit(_INTERRUPTED)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _stop_undisturbed()
            errors.print("stopped")
        raise


def _stop_undisturbed() -> None:
    """A second Ctrl-C has nothing left to stop, and would break off what Python does at its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _plain(error: Exception) -> str:
    from rich.markup import escape

    return escape(str(error) or type(error).__name__)
