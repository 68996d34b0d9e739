"""Twenty visits: what is shown of them, and walks so long that they are continued within."""

import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from many_visits import EXPERIMENT as MANY
from many_visits import METHOD, WANTED, walk
from PIL import Image

from forking import forked, forks
from rotta.comparison import Look
from rotta.datasets import load_dataset
from rotta.experiments import EXPERIMENTS, figure_visits, under_way
from rotta.experiments.experiment import Blocks
from rotta.experiments.page import presented, write_files, write_page
from rotta.experiments.reproduce import Wanted, plan
from rotta.experiments.store import Store, load
from rotta.experiments.tasks import Walk
from rotta.report.beside import to_markdown
from rotta.results import MethodResult, Result, SeedResult, Windows
from rotta.streams import PAPER_ORDER, Stream

FIGURE = figure_visits.EXPERIMENT
LASTING = "rotta-lasting"


def scored(first: float, last: float, seeds: int = 1) -> MethodResult:
    """Errors that go straight from the first visit's to the last visit's."""
    visits = [first + (last - first) * visit / 19 for visit in range(20)]
    windows = Windows([1], [0.0], [0.0], [0.0])
    mean = (first + last) / 2
    result = SeedResult(mean, {"fog": mean}, {}, 1.0, windows, per_visit=visits)
    return MethodResult.over(dict.fromkeys(range(seeds), result))


def blocks_of(**methods: MethodResult) -> Blocks:
    named = {name.replace("_", "-"): method for name, method in methods.items()}
    return {"cifar10-c": Result(named, {})}


# What is walked


def test_twenty_visits_of_the_practical_stream_in_the_papers_order(tmp_path: Path) -> None:
    walks = list(plan([FIGURE], tmp_path, Wanted(methods=("source",))).walks)
    assert [each.variant.dataset for each in walks] == ["cifar10-c", "cifar100-c"]
    for each in walks:
        assert each.identity.order == PAPER_ORDER
        assert (each.identity.visits, each.identity.setting) == (20, "ptta")
        assert each.identity.delta == 0.1


def test_labels_are_drawn_anew_on_each_visit(cache: Path) -> None:
    stream = Stream(load_dataset("digits-c", limit=30), visits=2)
    labels, domains = stream.labels(), stream.timeline().domains
    half = len(labels) // 2
    assert list(domains[:half]) == list(domains[half:])
    assert sorted(labels[:half]) == sorted(labels[half:])
    assert list(labels[:half]) != list(labels[half:])


def test_it_is_an_experiment_like_the_others() -> None:
    assert EXPERIMENTS["figure-visits"] is FIGURE
    assert {LASTING, "rotta", "source"} < set(FIGURE.variants[0].methods)


def test_another_precision_is_for_the_lasting_too(tmp_path: Path) -> None:
    wanted = Wanted(precision="float16", methods=("rotta*", "tent"), variants=("cifar10-c",))
    labels = {walk.method for walk in plan([FIGURE], tmp_path, wanted).walks}
    assert f"{LASTING}:precision=float16" in labels
    assert "tent" in labels


# What is shown


def test_a_table_shows_some_visits_and_the_average_beside_what_is_printed() -> None:
    shown = FIGURE.present(blocks_of(rotta=scored(26.0, 64.0, seeds=2)))
    ten, hundred = shown.grids
    assert ten.columns == ("visit 1", "visit 2", "visit 5", "visit 10", "visit 20", "average")
    table = to_markdown(ten)
    assert "\n| RoTTA, 2 seeds | **26.0 ± 0.0** | **28.0 ± 0.0** | **34.0 ± 0.0** |" in table
    assert "\n| <sub>printed</sub> |  |  |  |  |  | <sub>51.3</sub> |\n" in table
    cells = next(cells for name, cells in ten.rows if name == "Source")
    assert [cell.value for cell in cells] == [None] * 6
    assert cells[-1].printed == 43.5
    assert all(cell.value is None for _, cells in hundred.rows for cell in cells)


def test_verdicts_say_whether_it_lasts() -> None:
    def verdicts(first: float, last: float) -> list[str]:
        blocks = blocks_of(rotta=scored(25.0, 60.0), rotta_lasting=scored(first, last))
        return [line for line in FIGURE.present(blocks).remarks if line.startswith("CIFAR10-C: ")]

    kept = verdicts(22.5, 23.25)
    assert [": yes, " in line for line in kept] == [True] * 3
    assert "(at most 23.50): yes, 23.25." in kept[0]
    assert "(at most 25.00): yes, " in kept[1]
    assert "(at most 24.00): yes, " in kept[2]
    assert [": **no**, " in line for line in verdicts(24.0, 30.0)] == [True] * 3
    assert [": **no**, " in line for line in verdicts(24.5, 25.0)] == [False, False, True]


def test_without_results_there_is_no_verdict_but_what_others_report() -> None:
    (published, about) = FIGURE.present({}).remarks
    for number in ("51.3", "61.4", "43.5", "46.5", "22.8", "35.1", "PeTTA, NeurIPS 2024, Table 1"):
        assert number in published
    assert "every fifth visit" in about


def test_a_figure_has_a_line_for_each_method_and_the_source_dashed(tmp_path: Path) -> None:
    blocks = blocks_of(source=scored(45.0, 45.0), rotta=scored(26.0, 50.0, seeds=2))
    files = {path.name for path in write_files(FIGURE, blocks, tmp_path)}
    stems = {f"{dataset}-visits" for dataset in ("cifar10-c", "cifar100-c")}
    assert files == {
        *(f"{stem}{suffix}" for stem in stems for suffix in (".tex", ".csv")),
        *(f"cifar10-c-visits{suffix}" for suffix in (".png", ".svg")),
    }
    with Image.open(tmp_path / "cifar10-c-visits.png") as picture:
        assert picture.width == 1800
    curves = presented(FIGURE, blocks, None).curves[0]
    (axes,) = figure_visits._figure(curves).axes
    drawn = [line for line in axes.lines if line.get_linestyle() != "None"]
    assert [line.get_linestyle() for line in drawn] == ["--", "-"]
    assert [len(np.asarray(line.get_xdata())) for line in drawn] == [20, 20]


def test_results_without_visits_are_missing_and_not_an_error() -> None:
    old = scored(26.0, 64.0)
    seeds = {0: replace(old.seeds["0"], per_visit=[])}
    shown = FIGURE.present(blocks_of(rotta=MethodResult.over(seeds)))
    cells = next(cells for name, cells in shown.grids[0].rows if name == "RoTTA")
    assert [cell.value for cell in cells] == [None] * 5 + [45.0]


# Walks that go on within


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROTTA_COMMIT", "this one")  # somebody may commit meanwhile
    return tmp_path / "cache"


def under_way_in(cache: Path) -> list[Path]:
    """Whole ones: a file whose name begins with a point is still being written."""
    return list((cache / "walks").rglob("[!.]*.safetensors"))


def seed_result(results: Path) -> SeedResult:
    block = load(results / "limit-20" / MANY.name)["digits"]
    return replace(block.methods[METHOD].seeds["0"], ms_per_batch=0.0)


def keep_every_batch(results: Path) -> None:
    under_way.SECONDS_BETWEEN = 0.0
    walk(results)


def kill_in_the_middle(results: Path, cache: Path) -> None:
    process = forked(keep_every_batch, results)
    while not under_way_in(cache) and process.is_alive():
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (results / "limit-20" / MANY.name / "result.json").exists()


@forks
def test_killed_in_the_middle_it_goes_on_to_the_same_result(tmp_path: Path, cache: Path) -> None:
    walk(tmp_path / "straight")
    assert under_way_in(cache) == []
    kill_in_the_middle(tmp_path / "killed", cache)
    looks: list[Look] = []
    walk(tmp_path / "killed", looks.append)
    assert looks[0].batches > 1
    assert seed_result(tmp_path / "killed") == seed_result(tmp_path / "straight")
    assert len(seed_result(tmp_path / "killed").per_visit) == 6
    assert not list((cache / "walks").iterdir())


def test_what_other_code_or_options_have_begun_is_dropped(cache: Path) -> None:
    (todo,) = plan([MANY], cache, WANTED).walks
    begun = under_way.checkpoints_of(todo, {"pull": 0.1}, {"commit": "a", "time": "noon"})
    assert begun is not None
    others = (
        ({"pull": 0.1}, {"commit": "b"}),
        ({"pull": 0.2}, {"commit": "a"}),
        ({"pull": 0.1}, {"commit": "a", "cpu kernels": "of another kind"}),
    )
    for options, origin in others:
        begun.folder.mkdir(parents=True)
        again = under_way.checkpoints_of(todo, {"pull": 0.1}, {"commit": "a", "time": "night"})
        assert again == begun
        assert begun.folder.exists()
        other = under_way.checkpoints_of(todo, options, origin)
        assert other is not None
        assert other.folder != begun.folder
        assert not begun.folder.exists()


def test_walks_of_one_visit_keep_none(cache: Path) -> None:
    once = replace(MANY.variants[0], visits=1)
    assert under_way.checkpoints_of(Walk(once, METHOD, 0, 20, "cpu"), {}, {}) is None


def test_the_page_has_the_figure(tmp_path: Path, cache: Path) -> None:
    walk(tmp_path / "results")
    store = Store(MANY, tmp_path / "results" / "limit-20" / MANY.name)
    (identity, walked) = next(iter(store.walks()))
    assert identity.visits == 6
    ten = FIGURE.variants[0]
    Store(FIGURE, tmp_path / "results" / FIGURE.name).add(ten, "rotta", 0, walked)
    page = tmp_path / "page.md"
    write_page({FIGURE.name: FIGURE}, tmp_path / "results", page)
    text = page.read_text(encoding="utf-8")
    assert "![CIFAR10-C: mean error over the corruptions on each visit, %](" in text
    assert "CIFAR100-C: mean error over the corruptions on each visit, %: missing" in text
    assert "| 1 of 14 walks, seed 0 |" in text
