"""One HTML file that shows runs: it opens from the disk, and asks nothing of any network."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from rotta.atomic import replacing
from rotta.report.overview import overview
from rotta.report.runs import Run
from rotta.report.sections import section
from rotta.versions import __version__


def write_page(runs: Sequence[Run], path: Path) -> None:
    """Write tables, charts and pictures of runs into one file.

    Args:
        runs: At least one, in the order of the page; see :func:`rotta.report.runs.load_run`.
        path: The file is complete or not there.

    Raises:
        ValueError: There is no run, or the picture of a stream cannot be read.

    Example:
        >>> import tempfile
        >>> from rotta.results import MethodResult, Result, SeedResult, Windows
        >>> windows = Windows([64, 128], [20.0, 10.0], [0.5, 0.4], [0.9, 0.9])
        >>> scored = MethodResult.over({0: SeedResult(15.0, {"fog": 15.0}, {}, 9.0, windows)})
        >>> path = Path(tempfile.mkdtemp()) / "report.html"
        >>> write_page([Run("mine", Result({"rotta": scored}, {"dataset": "digits-c"}))], path)
        >>> "RoTTA has an average error of 15.0 %" in path.read_text(encoding="utf-8")
        True
    """
    if not runs:
        raise ValueError("there is no run to report on: give at least one")
    page = _page(runs)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _page(runs: Sequence[Run]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # slow to import

    environment = Environment(
        loader=PackageLoader("rotta.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _template("page.js")
    return environment.get_template("page.html").render(
        sections=[section(run) for run in runs],
        overview=overview(runs) if len(runs) > 1 else None,
        style=_template("page.css"),
        script=script,
        script_hash=_content_hash(script),
        version=__version__,
    )


def _template(name: str) -> str:
    return (files("rotta.report") / "templates" / name).read_text(encoding="utf-8")


def _content_hash(script: str) -> str:
    """By which the page allows its own script, and no other."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")
