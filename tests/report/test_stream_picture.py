import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from rotta.report import stream_picture
from rotta.report.domain_band import Band
from rotta.report.stream_picture import draw_stream
from rotta.report.stream_row import fill_windows
from rotta.report.swatches import class_colours
from rotta.streams import PAPER_ORDER, Timeline


def timeline(
    num_classes: int = 10,
    names: tuple[str, ...] = PAPER_ORDER,
    visits: int = 1,
    delta: float = 0.1,
    per_domain: int = 40,
) -> Timeline:
    domains = np.tile(np.repeat(np.arange(len(names)), per_domain), visits)
    labels = np.random.default_rng(0).integers(0, num_classes, len(domains))
    classes = tuple(f"class {index}" for index in range(num_classes))
    return Timeline(labels, domains, names, classes, delta)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_streams_give_the_same_file(tmp_path: Path, suffix: str) -> None:
    rows = [timeline(delta=delta) for delta in (math.inf, 1.0, 0.1)]
    for name in ("a", "b"):
        draw_stream(rows, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]


def test_streams_are_drawn_like_their_timelines(tmp_path: Path) -> None:
    class Knowing:
        def timeline(self) -> Timeline:
            return timeline()

    draw_stream([Knowing()], tmp_path / "stream.png")
    draw_stream([timeline()], tmp_path / "timeline.png")
    assert (tmp_path / "stream.png").read_bytes() == (tmp_path / "timeline.png").read_bytes()


def test_the_picture_shows_the_classes_where_they_come(tmp_path: Path) -> None:
    domains = np.zeros(1000, dtype=np.int64)
    halves = np.repeat([0, 1], 500)
    row = Timeline(halves, domains, ("fog",), ("cat", "dog"), 0.01)
    draw_stream([row], tmp_path / "halves.png")
    with Image.open(tmp_path / "halves.png") as image:
        pixels = np.asarray(image.convert("RGB")).astype(np.int64)
    assert pixels.shape[1] == 2400
    left, right = np.rint(class_colours(2) * 255).astype(np.int64)
    row_pixels = slice(int(0.7 * 200), int(0.9 * 200))  # inside the row, below the legend
    assert np.abs(pixels[row_pixels, 300:1100] - left).max() <= 1
    assert np.abs(pixels[row_pixels, 1400:2200] - right).max() <= 1


def test_windows_are_filled_in_proportion() -> None:
    labels = np.array([2, 0, 2, 0, 2, 1, 2, 1])
    pure = fill_windows(np.repeat(labels, 6000))  # 150 windows of 40 each
    np.testing.assert_array_equal(pure, np.tile(np.repeat(labels, 150), (240, 1)))

    for samples in (1900, 2250, 3000):  # windows of one, two or three: each where it belongs
        filled = fill_windows(np.arange(samples))
        middle = (np.arange(filled.shape[1]) + 0.5) * samples / filled.shape[1]
        assert np.abs(filled.mean(axis=0) - middle).max() < 1.5

    mixed = fill_windows(np.tile(labels, 1200))
    shares = np.bincount(mixed[:, 600], minlength=3) / 240
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.5])
    assert np.all(np.diff(mixed, axis=0) >= 0)


def _texts(figure: Figure) -> list[Text]:
    texts: list[Text] = []
    for axes in figure.axes:
        texts += axes.texts
        if axes.axison:
            texts += [*axes.get_xticklabels(), axes.xaxis.label, axes.yaxis.label]
    return [text for text in texts if text.get_text()]


@pytest.mark.parametrize(
    "row",
    [
        timeline(),
        timeline(names=("fog",)),
        timeline(num_classes=7, names=("art_painting", "cartoon", "photo", "sketch")),
        timeline(num_classes=20),
        timeline(num_classes=345, names=("clipart", "infograph", "quickdraw", "real")),
        timeline(visits=3),
        timeline(visits=10),
        timeline(per_domain=10_000),
    ],
    ids=["paper", "one", "pacs", "twenty", "domainnet", "three-visits", "ten-visits", "long"],
)
def test_no_text_covers_another_or_leaves_the_page(row: Timeline) -> None:
    figure = stream_picture._figure([row, replace(row, delta=0.001)])
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    assert any(label == "samples" for label, _ in boxes)
    for label, box in boxes:
        assert box.x0 >= 0 <= box.y0, label
        assert box.x1 <= figure.bbox.x1, label
        assert box.y1 <= figure.bbox.y1, label
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), (one, other)


@pytest.mark.parametrize(("num_classes", "expected"), [(20, True), (21, False)])
def test_a_legend_for_few_classes_only(tmp_path: Path, num_classes: int, expected: bool) -> None:
    draw_stream([timeline(num_classes)], tmp_path / "stream.svg")
    # matplotlib draws text as outlines and keeps the words in a comment
    assert ("<!-- class 7 -->" in (tmp_path / "stream.svg").read_text()) == expected


def test_names_of_domains_turn_and_then_move_to_a_legend() -> None:
    level, upright, legend = (
        Band(row.domains, row.domain_names, width=10.65)
        for row in (timeline(), timeline(visits=3), timeline(visits=10))
    )
    assert level.height < 0.5 < upright.height
    assert level.legend is None
    assert upright.legend is None
    assert legend.legend is not None
    assert "motion blur" in legend.legend.names


def test_colours_are_all_different() -> None:
    for number in (2, 10, 11, 20, 21, 200):
        assert len(np.unique(class_colours(number), axis=0)) == number


def test_the_global_backend_is_left_alone(tmp_path: Path) -> None:
    before = mpl.get_backend(auto_select=False)
    draw_stream([timeline()], tmp_path / "stream.svg")
    assert mpl.get_backend(auto_select=False) == before
    assert mpl.rcParams["svg.hashsalt"] is None


def test_mistakes_are_named_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"end the name in .png or .svg"):
        draw_stream([timeline()], tmp_path / "stream.gif")
    with pytest.raises(ValueError, match="at least one stream"):
        draw_stream([], tmp_path / "stream.png")
    with pytest.raises(ValueError, match="at least one stream"):
        draw_stream([timeline(per_domain=0)], tmp_path / "stream.png")
    with pytest.raises(ValueError, match="must share classes"):
        draw_stream([timeline(), timeline(visits=2)], tmp_path / "stream.png")
    with pytest.raises(ValueError, match="must share classes"):
        draw_stream([timeline(), timeline(num_classes=9)], tmp_path / "stream.png")
    assert list(tmp_path.iterdir()) == []
