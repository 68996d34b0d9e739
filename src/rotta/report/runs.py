"""Runs as they lie on the disk, for whoever reports on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotta.report.names import setting_name
from rotta.results import Result


@dataclass(frozen=True)
class Run:
    """A result, and what lies beside it."""

    name: str
    """Of its folder: tells runs of one dataset and setting apart."""
    result: Result
    picture: Path | None = None
    """Of the stream."""

    @property
    def title(self) -> str:
        """Dataset and setting: ``digits-c, Practical TTA``."""
        dataset, setting = self.setup("dataset"), self.setup("setting")
        return f"{dataset or self.name}, {setting_name(setting)}" if setting else str(dataset)

    def setup(self, key: str) -> Any:
        """A value of the configuration; none if it was not recorded."""
        return self.result.config.get(key)


def result_file(path: Path) -> Path:
    """Of a run that is given by its folder or by this file."""
    return path / "result.json" if path.is_dir() else path


def load_run(path: Path) -> Run:
    """Read a run.

    Args:
        path: Its folder, or the ``result.json`` in it.

    Raises:
        ValueError: There is no result, or none in which a method got to the end.
    """
    file = result_file(path)
    if not file.is_file():
        raise ValueError(f"there is no {file}: give a folder that `rotta run` wrote")
    result = Result.load(file)
    if not result.methods:
        raise ValueError(f"in {file} no method has finished yet: start the run again")
    folder = file.resolve().parent
    picture = folder / "stream.png"
    return Run(folder.name, result, picture if picture.is_file() else None)
