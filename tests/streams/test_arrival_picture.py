"""Pictures of streams that arrive in different ways."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from memory_dataset import MemoryDataset

from rotta.report import stream_picture
from rotta.report.stream_picture import draw_stream
from rotta.report.stream_row import fill_windows
from rotta.streams import ARRIVALS, PAPER_ORDER, Stream, Timeline


def timelines(*arrivals: str, size: int = 60) -> list[Timeline]:
    dataset = MemoryDataset(dict.fromkeys(PAPER_ORDER, size))
    return [Stream(dataset, arrival=arrival).timeline() for arrival in arrivals]


def words(figure: Figure) -> list[Text]:
    texts: list[Text] = []
    for axes in figure.axes:
        texts += axes.texts
        if axes.axison:
            texts += [*axes.get_xticklabels(), axes.xaxis.label, axes.yaxis.label]
    return [text for text in texts if text.get_text()]


def test_every_arrival_has_its_row_its_name_and_room() -> None:
    figure = stream_picture._figure(timelines(*ARRIVALS))
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in words(figure)]
    for name in (*ARRIVALS, *(domain.replace("_", " ") for domain in PAPER_ORDER)):
        assert any(text.split("\n")[0] == name for text, _ in boxes), name
    for text, box in boxes:
        assert box.x0 >= 0 <= box.y0, text
        assert box.x1 <= figure.bbox.x1, text
        assert box.y1 <= figure.bbox.y1, text
    for (one, a), (other, b) in combinations(boxes, 2):
        assert not a.padded(-1).overlaps(b.padded(-1)), (one, other)


def test_steady_streams_are_drawn_without_the_word(tmp_path: Path) -> None:
    draw_stream(timelines("steady"), tmp_path / "steady.svg")
    draw_stream(timelines("burst"), tmp_path / "burst.svg")
    assert "steady" not in (tmp_path / "steady.svg").read_text()
    assert "<!-- burst" in (tmp_path / "burst.svg").read_text()


def test_a_line_shows_the_severity_where_it_changes() -> None:
    steady, ramped = (
        stream_picture._figure(timelines(arrival)).axes[1] for arrival in ("steady", "gradual")
    )
    assert not steady.lines
    heights = np.unique(np.asarray(ramped.lines[0].get_ydata()))
    np.testing.assert_allclose(heights, [0.1, 0.3, 0.5, 0.7, 0.9])


def test_a_shorter_row_ends_earlier_at_the_same_scale() -> None:
    whole, thinned = timelines("steady", "long-tail")
    figure = stream_picture._figure([whole, thinned])
    rows = [axes for axes in figure.axes if axes.images]
    assert {axes.get_xlim() for axes in rows} == {(0.0, float(len(whole.labels)))}
    ends = [axes.images[0].get_extent()[1] for axes in rows]
    assert ends == [len(whole.labels)] * 2 + [len(thinned.labels)] * 2
    assert fill_windows(np.arange(100), 25).shape == (240, 25)


@pytest.mark.parametrize("arrival", ["steady", "mixed"])
def test_many_borders_are_drawn_as_one_image(arrival: str) -> None:
    """A bar for each of thousands of stretches would take minutes."""
    figure = stream_picture._figure(timelines(arrival, size=300))
    most = max(len(axes.patches) for axes in figure.axes)
    assert most == 15
    assert sum(bool(axes.images) for axes in figure.axes) == (2 if arrival == "mixed" else 1)
