import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import rotta.report
from rotta.adapters import METHODS
from rotta.report.beside import Entry
from rotta.report.curves import PALETTE, Curves, draw_curves, figure, spaced

DELTAS = ("i.i.d.", "10", "1", "0.1", "0.01", "0.001")


def curves(
    kind: str = "lines",
    x: tuple[str, ...] = DELTAS,
    methods: tuple[str, ...] = tuple(METHODS),
    errors: tuple[float | None, ...] = (30.0,),
    title: str = "CIFAR-10-C",
    seeds: int = 3,
) -> Curves:
    """Every method has the same errors, so that names have to make room for each other."""
    entries = tuple(Entry(errors[i % len(errors)], 0.5, seeds) for i in range(len(x)))
    lines = tuple((label, entries) for label in methods)
    return Curves("delta", title, "δ", x, lines, kind)


def visible(drawing: Figure) -> list[Text]:
    drawing.canvas.draw()
    return [text for text in drawing.findobj(Text) if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_the_same_errors_give_the_same_file(tmp_path: Path, suffix: str, kind: str) -> None:
    for name in ("a", "b"):
        draw_curves(curves(kind, x=DELTAS[:2]), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a{suffix}", f"b{suffix}"]


@pytest.mark.parametrize("kind", ["lines", "bars"])
@pytest.mark.parametrize("x", [DELTAS, ("without robust normalisation", "as it is"), DELTAS * 2])
def test_no_text_is_cut_off_or_lies_on_another(kind: str, x: tuple[str, ...]) -> None:
    drawing = figure(curves(kind, x, title="error against the parameter " * 5))
    # that of an annotation would include the line that leads to it
    boxes = [Text.get_window_extent(text) for text in visible(drawing)]
    assert all(box.x0 >= 0 and box.x1 <= drawing.bbox.x1 for box in boxes)
    assert all(box.y0 >= 0 and box.y1 <= drawing.bbox.y1 for box in boxes)
    shrunk = [box.expanded(0.98, 0.9) for box in boxes]  # descenders of letters may be near
    assert not [pair for pair in combinations(shrunk, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("kind", ["lines", "bars"])
def test_every_method_is_named(kind: str) -> None:
    texts = {text.get_text() for text in visible(figure(curves(kind)))}
    assert {"Source", "BN", "PL", "TENT", "LAME", "CoTTA", "NOTE", "RoTTA"} < texts


def test_rotta_is_brought_forward() -> None:
    (axes,) = figure(curves(seeds=1)).axes
    widths = {str(line.get_color()): float(line.get_linewidth()) for line in axes.get_lines()}
    own = widths.pop(PALETTE[0])
    assert own > 2 * max(widths.values())
    weights = {text.get_text(): text.get_fontweight() for text in axes.texts}
    assert [name for name, weight in weights.items() if weight == "bold"] == ["RoTTA"]


def test_what_is_missing_leaves_a_gap() -> None:
    drawn = curves(methods=("rotta",), errors=(30.0, None, 31.0), seeds=1)
    (axes,) = figure(drawn).axes
    heights = np.asarray(axes.get_lines()[0].get_ydata(), dtype=np.float64)
    np.testing.assert_array_equal(heights, [30.0, np.nan, 31.0] * 2)


def test_a_method_without_any_measurement_is_said_to_be_missing() -> None:
    whole = curves(methods=("rotta",))
    nothing = tuple(Entry(printed=20.0) for _ in DELTAS)
    both = Curves("delta", "", "δ", DELTAS, (*whole.lines, ("cotta", nothing)))
    texts = [text.get_text() for text in visible(figure(both))]
    assert "missing: CoTTA" in texts
    assert "CoTTA" not in texts


def test_gaps_are_said_to_be_missing() -> None:
    x = ("1", "0.1", "0.01")
    lines = (
        ("bn", (Entry(30.0), Entry(31.0), Entry())),
        ("rotta", (Entry(25.0), Entry(), Entry())),
    )
    texts = [text.get_text() for text in visible(figure(Curves("d", "", "δ", x, lines)))]
    assert "missing: RoTTA at 0.1, all at 0.01" in texts


@pytest.mark.parametrize(("seeds", "bars"), [(1, 0), (3, 6)])
def test_spread_is_drawn_where_there_are_several_seeds(seeds: int, bars: int) -> None:
    (axes,) = figure(curves(methods=("rotta",), seeds=seeds)).axes
    segments = [segment for c in axes.collections for segment in c.get_segments()]  # type: ignore[attr-defined]
    assert sum(len(segment) > 0 for segment in segments) == bars


def test_bars_stand_in_groups() -> None:
    (axes,) = figure(curves("bars", x=("a", "b"), errors=(30.0, 40.0))).axes
    middles = np.array([bar.get_x() + bar.get_width() / 2 for bar in axes.patches])  # type: ignore[attr-defined]
    heights = np.array([bar.get_height() for bar in axes.patches])  # type: ignore[attr-defined]
    assert len(middles) == 2 * len(METHODS)
    np.testing.assert_array_equal(np.rint(middles), (heights == 40.0).astype(int))


@pytest.mark.parametrize("gap", [0.1, 0.2])
def test_heights_move_apart_within_their_bounds(gap: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        before = sorted(rng.uniform(0, 1, 6) ** 3)
        after = spaced(before, gap)
        assert min(np.diff(after)) > gap - 1e-9
        assert min(after) > -1e-9
        assert max(after) < 1 + 1e-9
    assert spaced([0.1, 0.5, 0.9], gap) == [0.1, 0.5, 0.9]


def test_colours_are_those_of_the_pages() -> None:
    folder = Path(rotta.report.__file__).parent
    style = (folder / "templates" / "page.css").read_text(encoding="utf-8")
    light = dict(reversed(re.findall(r"--c(\d): (#\w{6})", style)))  # the dark ones come later
    assert [light[str(number)] for number in range(10)] == list(PALETTE)


@pytest.mark.parametrize("name", ["curves.pdf", "curves"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        draw_curves(curves(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_nothing_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run its experiment first"):
        draw_curves(curves(errors=(None,)), tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


def test_what_is_printed_is_a_line_of_its_own() -> None:
    entries = (Entry(34.4, printed=35.0), Entry(34.1, printed=37.6))
    axes = figure(Curves("nu", "", "ν", ("0.001", "0.0005"), (("rotta", entries),))).axes[0]
    assert [text.get_text() for text in axes.texts] == ["RoTTA", "printed"]
    drawn = [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]
    assert [34.4, 34.1] in drawn
    assert [35.0, 37.6] in drawn
