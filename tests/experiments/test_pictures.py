"""The two figures that need no walk: complete, legible, and the same every time."""

import hashlib
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as Line
from PIL import Image

from rotta.datasets.cifar import CIFARS
from rotta.experiments import figure_framework, figure_stream
from rotta.experiments.experiment import Experiment
from rotta.report import framework_picture
from rotta.report.framework_picture import draw_framework
from rotta.streams import PAPER_ORDER


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def small_cifar(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test set of a hundred black images in CIFAR's own format."""
    folder = cache / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    table = {"data": np.zeros((100, 3072), np.uint8), "labels": [i % 10 for i in range(100)]}
    content = pickle.dumps(table, protocol=2)
    (folder / "test_batch").write_bytes(content)
    files = {"test": {"test_batch": hashlib.md5(content).hexdigest()}}
    monkeypatch.setitem(CIFARS, "cifar10", replace(CIFARS["cifar10"], files=files))
    return cache


def _words(svg: Path) -> list[str]:
    """What stands in a picture: text is drawn as outlines, and the words kept in comments."""
    return re.findall(r"<!-- (.*?) -->", svg.read_text(encoding="utf-8"), re.DOTALL)


def _draw_of(experiment: Experiment) -> Callable[[Path], list[Path]]:
    assert experiment.draw is not None
    return experiment.draw


@pytest.mark.parametrize(
    ("experiment", "stem", "width", "heights"),
    [
        (figure_framework.EXPERIMENT, "framework", 1800, range(1200, 1600)),
        (figure_stream.EXPERIMENT, "stream", 2400, range(800, 1200)),
    ],
    ids=["framework", "stream"],
)
def test_a_figure_is_a_sound_png_and_svg_and_the_same_twice(
    small_cifar: Path,
    tmp_path: Path,
    experiment: Experiment,
    stem: str,
    width: int,
    heights: range,
) -> None:
    once, again = (_draw_of(experiment)(tmp_path / name) for name in ("once", "again"))
    assert once == [tmp_path / "once" / f"{stem}.png", tmp_path / "once" / f"{stem}.svg"]
    assert sorted((tmp_path / "once").iterdir()) == once
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]
    with Image.open(once[0]) as image:
        assert image.width == width
        assert image.height in heights
    assert ElementTree.parse(once[1]).getroot().tag.endswith("svg")


def test_the_stream_shows_four_deltas_in_the_papers_order_and_makes_no_image(
    small_cifar: Path, tmp_path: Path
) -> None:
    _, svg = _draw_of(figure_stream.EXPERIMENT)(tmp_path / "figure")
    words = _words(svg)
    assert [row for row in words if "δ" in row] == ["δ = 10", "δ = 1", "δ = 0.1", "δ = 0.01"]
    domains = [name.replace("_", " ") for name in PAPER_ORDER]
    assert " ".join(domains) in " ".join(words).replace("\n", " ")
    assert [path.name for path in small_cifar.iterdir()] == ["data"]


def test_without_cifar_the_stream_says_what_to_download(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"CIFAR-10 .*cifar-10-python\.tar\.gz"):
        _draw_of(figure_stream.EXPERIMENT)(tmp_path / "figure")
    assert not (tmp_path / "figure").exists()


def test_words_of_the_diagram_are_legible() -> None:
    figure = framework_picture._sheet().figure
    figure.draw_without_rendering()
    texts = figure.axes[0].texts
    assert figure.get_figwidth() == 9  # so many hundred pixels it is shown at
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for text, (words, box) in zip(texts, boxes, strict=True):
        assert float(text.get_fontsize()) >= 9, words
        assert figure.bbox.x0 < box.x0 < box.x1 < figure.bbox.x1, words
        assert figure.bbox.y0 < box.y0 < box.y1 < figure.bbox.y1, words
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.overlaps(b), (one, other)


def _without_closing(line: Line) -> Line:
    """Less the point that only says "back to the start", which would count as a place."""
    vertices, codes = np.asarray(line.vertices), np.asarray(line.codes)
    real = codes != Line.CLOSEPOLY
    return Line(vertices[real], codes[real])


def test_no_arrow_of_the_diagram_crosses_words() -> None:
    figure = framework_picture._sheet().figure
    figure.draw_without_rendering()
    (axes,) = figure.axes
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arrows) >= 10
    for arrow in arrows:
        line = _without_closing(arrow.get_path()).transformed(axes.transData)
        for text in axes.texts:
            assert not line.intersects_bbox(text.get_window_extent(), filled=False), text.get_text()


def test_the_diagram_in_the_docs_is_the_one_drawn(tmp_path: Path) -> None:
    """In size and words; how edges are smoothed depends on Matplotlib's release."""
    stored = Path(__file__).parents[2] / "docs" / "images"
    png, svg = _draw_of(figure_framework.EXPERIMENT)(tmp_path)
    with Image.open(stored / "framework.png") as old, Image.open(png) as new:
        assert old.size == new.size
    assert _words(stored / "framework.svg") == _words(svg)


def test_a_diagram_in_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end the name in .png or .svg"):
        draw_framework(tmp_path / "framework.gif")
    assert list(tmp_path.iterdir()) == []
