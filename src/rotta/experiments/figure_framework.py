"""The method in one diagram."""

from pathlib import Path

from rotta.experiments.experiment import Experiment
from rotta.report.framework_picture import draw_framework


def _draw(folder: Path) -> list[Path]:
    pictures = [folder / "framework.png", folder / "framework.svg"]
    for picture in pictures:
        draw_framework(picture)
    return pictures


EXPERIMENT = Experiment(name="figure-framework", title="How RoTTA works", draw=_draw)
