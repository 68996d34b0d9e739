"""``rotta report``: runs as a page, or as tables for a README or a paper."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rotta.atomic import replacing
from rotta.cli.console import say
from rotta.registry import lookup

_PAGE = "html"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders that `rotta run` wrote, or the result.json in them."),
    ],
    form: Annotated[
        str,
        typer.Option("--format", help="html is a page with charts; md and latex are the table."),
    ] = _PAGE,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write. If left out, a page becomes report.html in the first run's "
            "folder, and tables are printed.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Show what runs measured: a page to look at, or a table to paste.

    The page is one file that needs no network; several runs share it, an overview first.

    Example: `rotta report runs/digits-c-ptta-seed0 --format latex --out table.tex`
    """
    from rotta.report.page import write_page
    from rotta.report.runs import load_run, result_file
    from rotta.report.tables import comparison_table, to_latex, to_markdown

    tables = {_PAGE: None, "md": to_markdown, "latex": to_latex}
    to_text = lookup(tables, form, "format")
    loaded = [load_run(path) for path in runs]
    if out is not None and out.resolve() in {result_file(path).resolve() for path in runs}:
        raise ValueError(f"{out} is the result itself: give --out another name")
    if to_text is None:
        page = out or _folder(runs[0]) / "report.html"
        with _told_where(page):
            write_page(loaded, page)
        say(f"page to look at: {page}")
        return
    text = "\n".join(to_text(comparison_table(run.result), run.title) for run in loaded)
    if out is None:
        typer.echo(text, nl=False)
        return
    with _told_where(out), replacing(out) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say(f"table: {out}")


def _folder(run: Path) -> Path:
    return run if run.is_dir() else run.parent


@contextmanager
def _told_where(path: Path) -> Iterator[None]:
    """Say what to do if a file cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(f"cannot write {path} ({reason}): give --out another place") from error
