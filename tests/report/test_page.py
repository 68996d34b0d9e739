import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_results import guard_event, result, with_incidents
from PIL import Image

from rotta.report.page import write_page
from rotta.report.runs import Run, load_run
from rotta.report.series import colours
from rotta.report.stays import stays
from rotta.report.svg import curve, shortened, ticks
from rotta.results import Result

SEVEN = {"source": 60, "bn": 30, "pl": 45, "tent": 50, "lame": 40, "note": 20, "rotta": 10}
METHODS = {label: float(error) for label, error in SEVEN.items()}
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Elements and texts of a page; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open):
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        found = [attributes for name, attributes in self.elements if name == tag]
        return [a for a in found if all(a.get(key) == value for key, value in wanted.items())]

    def hovers(self) -> list[dict[str, Any]]:
        told = [a["data-hover"] for _, a in self.elements if "data-hover" in a]
        return [json.loads(text or "") for text in told]


def html_of(tmp_path: Path, *results: Result, picture: Path | None = None) -> str:
    runs = [Run(f"run {i}", entry, picture) for i, entry in enumerate(results)]
    write_page(runs, tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_page_shows_everything_that_was_measured(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((300, 2400, 3), np.uint8)).save(tmp_path / "stream.png")
    html = html_of(tmp_path, result(METHODS, seeds=(0, 1, 2)), picture=tmp_path / "stream.png")
    page = Page(html)
    assert "RoTTA has the lowest average error" in page.text
    for heading in ("Error over time", "Balance of", "Entropy of", "The stream", "Memory banks"):
        assert heading in page.text
    for heading in ("Mean age", "Error on each class", "Speed", "Configuration and provenance"):
        assert heading in page.text
    assert "a computer" in page.text
    assert "Means of 3 seeds" in page.text
    assert len(page.all("tr", **{"class": "strong"})) == 3  # domains, classes, speed
    assert len(html) < 2_000_000


def test_the_page_asks_nothing_of_any_network(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((30, 240, 3), np.uint8)).save(tmp_path / "stream.png")
    html = html_of(tmp_path, result(METHODS), picture=tmp_path / "stream.png")
    page = Page(html)
    addresses = [a.get("src") or a.get("href") or "" for _, a in page.elements]
    assert all(address.startswith(("data:", "#")) for address in addresses if address)
    outside = set(re.findall(r"https?://[^\"' )]+", html))
    assert outside <= {"http://www.w3.org/2000/svg"}  # the name of a namespace
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert str(policy).startswith("default-src 'none'")


def test_charts_are_well_formed_and_say_what_they_show(tmp_path: Path) -> None:
    html = html_of(tmp_path, result(METHODS))
    charts = re.findall(r"<svg viewBox[^>]*role=\"img\">.*?</svg>", html, flags=re.DOTALL)
    assert len(charts) == 6  # error, balance, entropy, two banks, age
    for chart in charts:
        drawing = ElementTree.fromstring(chart)
        assert drawing.findtext("title")
        assert drawing.findtext("desc")
        assert "nan" not in " ".join(path.get("d", "") for path in drawing.iter("path"))


def test_every_method_can_be_switched_off_by_its_name(tmp_path: Path) -> None:
    page = Page(html_of(tmp_path, result(METHODS)))
    switches = [a["data-series"] for a in page.all("button")]
    assert switches == ["Source", "BN", "PL", "TENT", "LAME", "NOTE", "RoTTA"]
    curves = [a["data-series"] for a in page.all("g")]
    assert all(curves.count(name) == 3 + (name in ("NOTE", "RoTTA")) for name in switches)


def test_hovering_tells_the_means_of_the_windows(tmp_path: Path) -> None:
    made = result({"source": 50.0, "rotta": 10.0}, seeds=(0, 1))
    error = Page(html_of(tmp_path, made)).hovers()[0]
    walks = [seed.windows.error for seed in made.methods["rotta"].seeds.values()]
    told = next(entry for entry in error["entries"] if entry["name"] == "RoTTA")
    assert told["values"] == pytest.approx(np.mean(walks, axis=0).tolist(), abs=0.006)
    assert error["places"][0] == "75 samples, motion"
    assert error["places"][-1] == "1,500 samples, impulse"


def test_bands_appear_with_several_seeds_only(tmp_path: Path) -> None:
    assert 'class="band"' not in html_of(tmp_path, result(METHODS))
    assert 'class="band"' in html_of(tmp_path, result(METHODS, seeds=(0, 1)))


HOSTILE = "<script>alert(1)</script>\"'&"


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    classes = [HOSTILE, "b"]
    made = result({"rotta": 9.0, HOSTILE: 20.0}, order=[HOSTILE, "x"], classes=classes)
    hostile = Result(made.methods, {**made.config, "dataset": HOSTILE}, {HOSTILE: HOSTILE})
    html = html_of(tmp_path, hostile, hostile)
    page = Page(html)
    assert len(page.all("script")) == 1
    assert "alert(1)" in page.text
    assert "<script>alert" not in html
    assert any(HOSTILE in entry["name"] for entry in page.hovers()[0]["entries"])


def test_many_classes_become_heat_maps(tmp_path: Path) -> None:
    few, many, most = (tuple(f"class {i}" for i in range(n)) for n in (20, 100, 400))
    assert 'class="heat' not in html_of(tmp_path, result(METHODS, classes=few))
    page = Page(html_of(tmp_path, result(METHODS, classes=many)))
    maps = [hover for hover in page.hovers() if hover["kind"] == "cells"]
    assert [np.shape(shown["values"]) for shown in maps] == [(100, 20), (100, 20), (7, 100)]
    assert np.sum(maps[0]["values"], axis=0).tolist() == [64] * 20
    grouped = Page(html_of(tmp_path, result(METHODS, classes=most)))
    held = next(hover for hover in grouped.hovers() if hover["kind"] == "cells")
    assert len(held["rows"]) <= 150
    assert np.sum(held["values"], axis=0).tolist() == [64] * 20


# What the guard did


GUARDED = {"source": 60.0, "tent": 50.0, "tent:guard=true": 30.0}


def guarded(*events: Any, **config: Any) -> Result:
    return with_incidents(result(GUARDED, **config), "tent:guard=true", events=list(events))


def test_what_the_guard_did_is_listed_and_marked(tmp_path: Path) -> None:
    events = [
        guard_event(2, "lower the rate"),
        guard_event(9, "roll back", rate=0.01),
        guard_event(20, cause="not finite", signals={"lost belief": None}, domain="motion_blur"),
    ]
    html = html_of(tmp_path, guarded(*events))
    page = Page(html)
    assert "What the guard did" in page.text
    assert "3 alarms, 1 lowered the rate, 1 rolled back, 1 reset" in page.text
    assert "TENT (guard=true) 0 9 fog rolled back lost belief 0.31 × 0.01" in page.text
    assert "TENT (guard=true) 0 20 motion blur reset not finite – × 0.1" in page.text
    assert html.count("<title>TENT (guard=true), seed 0, batch ") == 3
    assert "batch 9, fog: rolled back (lost belief 0.31), rate × 0.01</title>" in html
    meanings = page.all("li", **{"class": "meaning"})
    assert len(meanings) == 3  # of the legend: nothing is explained that does not occur
    chart = ElementTree.fromstring(
        re.findall(r"<svg viewBox[^>]*role=\"img\">.*?</svg>", html, flags=re.DOTALL)[0]
    )
    (group,) = (g for g in chart.iter("g") if g.find("path[@class='mark']") is not None)
    assert group.get("data-series") == "TENT (guard=true)"  # goes with the curve
    lefts = [float(re.findall(r"[\d.]+", path.get("d", ""))[0]) for path in group]
    assert lefts == sorted(lefts)
    assert len({path.get("d", "").count("L") for path in group}) == 2  # triangles and squares


def test_nothing_is_said_where_no_guard_did_anything(tmp_path: Path) -> None:
    html = html_of(tmp_path, result(GUARDED), result(GUARDED))
    page = Page(html)
    assert "guard did" not in page.text
    assert "skipped" not in page.text
    assert not page.all("path", **{"class": "mark"})
    assert not page.all("li", **{"class": "meaning"})


def test_a_long_log_is_cut_and_counted(tmp_path: Path) -> None:
    single = [guard_event(batch, samples=batch) for batch in range(1, 1501)]  # images
    html = html_of(tmp_path, guarded(*single))
    page = Page(html)
    assert "1,500 alarms, 1,500 reset" in page.text
    assert "and 1,480 more, in result.json" in page.text
    assert 20 < len(page.all("path", **{"class": "mark"})) < 200
    assert "more close by</title>" in html
    assert len(html) < 500_000


def test_every_seed_has_its_events(tmp_path: Path) -> None:
    page = Page(html_of(tmp_path, guarded(guard_event(9), guard_event(9, "odd"), seeds=(4, 5))))
    assert "TENT (guard=true) 4 9 fog reset" in page.text
    assert "TENT (guard=true) 5 9 fog odd" in page.text  # of a version that is yet to come
    assert "4 alarms, 2 reset, 2 odd" in page.text
    places = {a["d"] for a in page.all("path", **{"class": "mark"})}
    assert len(places) == 2 + 1  # two kinds at one moment, above each other; one in the legend


def test_skipped_input_is_counted_where_runs_are_summed_up(tmp_path: Path) -> None:
    skipped = with_incidents(
        result(GUARDED, seeds=(0, 1)), "tent", skipped={"non-finite": 3, "shape": 1}
    )
    page = Page(html_of(tmp_path, skipped))
    assert "skipped by TENT 6 images, 2 batches" in page.text
    assert "What was skipped TENT skipped 6 images, 2 batches." in page.text
    assert "TENT non-finite 6 TENT shape 2" in page.text
    assert "guard did" not in page.text
    assert not page.all("path", **{"class": "mark"})
    both = Page(html_of(tmp_path, skipped, result(GUARDED)))
    overview = both.text[: both.text.index("Error in each domain")]
    assert overview.count("6 images, 2 batches skipped") == 1


def test_no_word_of_a_guard_becomes_markup(tmp_path: Path) -> None:
    words = {"domain": HOSTILE, "action": HOSTILE, "cause": HOSTILE}
    html = html_of(tmp_path, guarded(guard_event(3, **words)))
    assert len(Page(html).all("script")) == 1
    assert "<script>alert" not in html


def test_several_runs_share_a_page_with_an_overview(tmp_path: Path) -> None:
    better = result({"source": 60.0, "rotta": 10.0})
    worse = result({"source": 20.0, "rotta": 30.0}, dataset="cifar10-c")
    page = Page(html_of(tmp_path, better, worse))
    assert page.text.index("in 1 of 2 runs") < page.text.index("Error in each domain")
    anchors = {a["id"] for a in page.all("section")}
    assert {f"#{anchor}" for anchor in anchors} == {a["href"] for a in page.all("a")}
    assert len(anchors) == 2
    both = Page(html_of(tmp_path, better, better))
    assert "RoTTA has the lowest average error in all 2 runs" in both.text


def test_a_lone_method_and_a_bare_result_have_a_page(tmp_path: Path) -> None:
    assert "RoTTA has an average error" in Page(html_of(tmp_path, result({"rotta": 9.0}))).text
    made = result({"bn": 9.0})
    bare = Result(made.methods, {})
    assert "BN has an average error" in Page(html_of(tmp_path, bare)).text


def test_what_is_not_a_number_leaves_a_gap(tmp_path: Path) -> None:
    made = result({"source": 50.0, "tent": 60.0})
    broken = made.methods["tent"].seeds["0"].windows.entropy
    assert isinstance(broken, list)
    broken[5:8] = [float("nan")] * 3
    page = Page(html_of(tmp_path, made))
    told = page.hovers()[2]["entries"][1]["values"]
    assert told[4:9] == [0.5, None, None, None, 0.5]


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    made = result({"bn": 9.0}, complete=False, methods=["bn", "rotta"])
    assert "RoTTA unfinished" in Page(html_of(tmp_path, made)).text
    whole = result({"bn": 9.0}, complete=True, methods=["bn"])
    assert "unfinished" not in Page(html_of(tmp_path, whole)).text


def test_the_streams_picture_is_made_small(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (400, 2400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "stream.png")
    html = html_of(tmp_path, result(METHODS), picture=tmp_path / "stream.png")
    assert len(html) < 2_000_000 < (tmp_path / "stream.png").stat().st_size
    (tmp_path / "stream.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"stream\.png is no picture: remove it"):
        html_of(tmp_path, result(METHODS), picture=tmp_path / "stream.png")


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "stream.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="no picture"):
        html_of(tmp_path, result(METHODS), picture=tmp_path / "stream.png")
    assert (tmp_path / "page.html").read_text() == "old"
    with pytest.raises(ValueError, match="at least one"):
        write_page([], tmp_path / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "stream.png"]


def test_a_run_is_found_by_its_folder_or_its_file(tmp_path: Path) -> None:
    result(METHODS).save(tmp_path / "mine" / "result.json")
    by_folder, by_file = load_run(tmp_path / "mine"), load_run(tmp_path / "mine" / "result.json")
    assert by_folder == by_file
    assert (by_folder.name, by_folder.title) == ("mine", "digits-c, Practical TTA")
    assert by_folder.picture is None


def test_borders_follow_the_sizes_of_the_domains() -> None:
    made = result({"bn": 9.0}, order=["a", "b"], visits=2, domain_sizes=[10, 30])
    found = [(stay.name, stay.start, stay.end) for stay in stays(made, 80)]
    assert found == [("a", 0, 10), ("b", 10, 40), ("a", 40, 50), ("b", 50, 80)]


def test_borders_that_are_not_known_are_not_drawn() -> None:
    assert stays(result({"bn": 9.0}, order=["a", "b"], domain_sizes=None), 80) == []
    assert stays(result({"bn": 9.0}, order=["a", "b"], domain_sizes=[10, 20]), 80) == []


def test_known_methods_keep_their_colours_and_nobody_shares_early() -> None:
    labels = ["rotta", "rotta:nu=1", "rotta:nu=2", "source", "note"]
    given = colours(labels)
    assert len(set(given.values())) == len(labels)
    assert given["source"] == colours(["source"])["source"]
    assert len(colours([f"m{i}" for i in range(25)])) == 25


@pytest.mark.parametrize("highest", [0.003, 0.9, 1.0, 7.0, 43.0, 100.0, 1234.0])
def test_ticks_reach_the_highest_value_and_are_few(highest: float) -> None:
    steps = ticks(highest)
    assert steps[0] == 0
    assert steps[-2] < highest <= steps[-1]
    assert 3 <= len(steps) <= 7


def test_curves_break_and_long_names_end() -> None:
    ys = np.array([1.0, np.nan, 3.0, 4.0])
    assert curve(np.arange(4.0), ys) == "M0 1h0M2 3h0L3 4"
    assert shortened("photographs", 40).endswith("…")
