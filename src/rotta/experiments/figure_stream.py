"""The test stream for four values of δ: the smaller, the longer one class stays."""

from pathlib import Path

from rotta.datasets import load_dataset
from rotta.experiments.experiment import Experiment
from rotta.report.stream_picture import draw_stream
from rotta.streams import PAPER_ORDER, Stream

_DELTAS = 10, 1, 0.1, 0.01


def _draw(folder: Path) -> list[Path]:
    data = load_dataset("cifar10-c")  # its labels are known before any image is made
    streams = [Stream(data, setting="ptta", delta=delta, order=PAPER_ORDER) for delta in _DELTAS]
    rows = [stream.timeline() for stream in streams]
    pictures = [folder / "stream.png", folder / "stream.svg"]
    for picture in pictures:
        draw_stream(rows, picture)
    return pictures


EXPERIMENT = Experiment(
    name="figure-stream",
    title="The test stream of CIFAR10-C for four values of δ",
    draw=_draw,
    drawn_from=("cifar10-c",),
)
