import re
from pathlib import Path
from typing import Any

import pytest

from rotta.experiments import EXPERIMENTS
from rotta.experiments.experiment import Blocks, Experiment, Presentation, Variant
from rotta.experiments.measured import average, per_domain
from rotta.experiments.origins import origin_lines
from rotta.experiments.page import presented, write_files, write_page
from rotta.experiments.reproduce import results_folder
from rotta.experiments.store import QUICK_LIMIT, Store, load
from rotta.experiments.tasks import Walked
from rotta.report.beside import Grid
from rotta.report.curves import Curves
from rotta.results import Result, SeedResult, Windows

ORDER = ("fog", "snow")
METHODS = ("bn", "cotta", "rotta")
SLIP = "A slip in print: the rows of PL and BN are one."


def variants(number: int) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"order {i}", "digits-c", "digits-resnet8", METHODS, order=ORDER)
        for i in range(number)
    )


def present(blocks: Blocks) -> Presentation:
    rows = tuple((label, (average(blocks, "order 0", label, 30.0),)) for label in METHODS)
    averages = Grid("average", "Digits: average", "method", ("average",), rows)
    single = [
        per_domain(blocks, name, METHODS, name=name.replace(" ", "-"), title=f"Digits, {name}")
        for name in blocks
    ]
    lines = tuple((label, (average(blocks, "order 0", label),)) for label in METHODS)
    curves = Curves("course", "Digits: course", "order", ("0",), lines, "bars")
    return Presentation((averages, *single), (curves,), (SLIP,))


def experiment(number: int = 1, name: str = "table-digits") -> Experiment:
    return Experiment(name, "Digits: three methods", variants(number), present)


def walked(error: float, limit: int | None = None, **origin: str) -> Walked:
    windows = Windows([10], [error], [0.5], [0.9])
    result = SeedResult(error, dict.fromkeys(ORDER, error), {"0": error}, 1.0, windows)
    config: dict[str, Any] = {
        "dataset": "digits-c",
        "source": "digits",
        "setting": "ptta",
        "delta": 0.1,
        "order": list(ORDER),
        "domain_sizes": [limit or 360, limit or 400],
        "visits": 1,
        "batch_size": 64,
        "split": "test",
        "image_size": None,
        "limit": limit,
    }
    stated = {"device": "NVIDIA H200", "commit": "0123456789abcdef", "time": "2026-01-01T10:00:00"}
    tf32 = {"tf32": {"convolutions": True, "matrix products": False}}
    return Walked(result, config, {}, {**stated, **tf32, **origin})


def fill(
    root: Path, of: Experiment, limit: int | None = None, seeds: tuple[int, ...] = (0,)
) -> Blocks:
    """Every walk, as `rotta reproduce` leaves them, and its files."""
    folder = results_folder(root, of, limit)
    store = Store(of, folder)
    for variant in of.variants:
        for place, method in enumerate(variant.methods):
            for seed in seeds if method != "cotta" else seeds[:1]:
                store.add(variant, method, seed, walked(20.0 + place + seed, limit))
    blocks = load(folder)
    write_files(of, blocks, folder)
    return blocks


def page_of(root: Path, *experiments: Experiment) -> str:
    page = root / "docs" / "reproduction.md"
    write_page({e.name: e for e in experiments}, root / "results", page)
    return page.read_text(encoding="utf-8")


def test_a_finished_experiment_is_shown_with_command_origin_tables_figures(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment(), seeds=(0, 1, 2))
    text = page_of(tmp_path, experiment())
    assert "`rotta reproduce table-digits` | complete, seeds 0, 1, 2 | not run yet |" in text
    assert "```\nrotta reproduce table-digits --seeds 0,1,2\n```" in text
    assert "- machine: NVIDIA H200\n- precision: float32 (convolutions in TF32)\n" in text
    assert "- commit: 0123456789\n" in text
    assert "- seeds: 0, 1, 2 (CoTTA: 0)\n- images per domain: 360 to 400\n" in text
    assert "| rotta | 30.0 | 23.0 ± 1.0 (3) | −7.0 |" in text
    assert "![Digits: course](../results/table-digits/course.png)" in text
    assert f"- {SLIP}\n" in text


def test_every_link_leads_to_a_file(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment())
    fill(tmp_path / "results", experiment(), QUICK_LIMIT)
    links = re.findall(r"\]\(([^#)]+)\)", page_of(tmp_path, experiment()))
    kinds = {Path(link).suffix for link in links}
    assert kinds == {".tex", ".csv", ".png", ".svg"}
    assert all((tmp_path / "docs" / link).is_file() for link in links)


def test_what_is_missing_is_said_and_counted(tmp_path: Path) -> None:
    partly = experiment(2)
    folder = results_folder(tmp_path / "results", partly, None)
    Store(partly, folder).add(partly.variants[0], "rotta", 0, walked(20.0))
    text = page_of(tmp_path, partly)
    assert "| 1 of 6 walks, seed 0 | not run yet |" in text
    assert "| bn | 30.0 | missing |  |" in text


def test_an_experiment_that_was_not_run_shows_what_the_paper_prints(tmp_path: Path) -> None:
    text = page_of(tmp_path, experiment())
    assert "| not run yet | not run yet |" in text
    assert "Not run yet.\n\n<details>\n<summary>What is printed</summary>" in text
    assert "| rotta | 30.0 | missing |  |" in text
    assert "course.png" not in text


def test_quick_results_say_so_in_the_same_section(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment())
    fill(tmp_path / "results", experiment(), QUICK_LIMIT)
    text = page_of(tmp_path, experiment())
    full, _, quick = text.partition("### Quick: 2,000 images per domain\n")
    assert "(quick:" not in full
    titles = re.findall(r"^(?:\*\*|!\[)(.*?)(?:\*\*$|\])", quick, flags=re.MULTILINE)
    assert len(titles) == 3
    assert all(title.endswith("(quick: 2,000 images per domain)") for title in titles)
    assert "```\nrotta reproduce table-digits --quick\n```" in quick
    assert "- images per domain: 2,000\n" in quick
    assert text.count(SLIP) == 1


def test_quick_results_alone(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment(), QUICK_LIMIT)
    text = page_of(tmp_path, experiment())
    assert "| not run yet | complete, seed 0 |" in text
    assert "Not run over all images yet." in text
    assert SLIP in text


def test_files_of_quick_results_say_so(tmp_path: Path) -> None:
    fill(tmp_path, experiment(), QUICK_LIMIT)
    folder = tmp_path / "quick" / "table-digits"
    note = "(quick: 2,000 images per domain)"
    assert note in (folder / "average.tex").read_text(encoding="utf-8")
    blocks = load(folder)
    assert all(c.title.endswith(note) for c in presented(experiment(), blocks, QUICK_LIMIT).curves)


def test_a_long_tail_of_tables_is_folded_away(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment(5))
    before, _, tail = page_of(tmp_path, experiment(5)).partition("<details>\n")
    assert tail.startswith("<summary>5 more tables</summary>\n\n**Digits, order 0**")
    assert "**Digits: average**" in before
    assert "course.png" in before
    assert tail.partition("</details>")[0].count("[CSV]") == 5


def test_a_few_tables_are_not(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment(3))
    assert "<details>" not in page_of(tmp_path, experiment(3))


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    fill(tmp_path / "results", experiment(2), seeds=(0, 1))
    assert page_of(tmp_path, experiment(2)) == page_of(tmp_path, experiment(2))


def test_files_are_those_that_are_returned(tmp_path: Path) -> None:
    blocks = fill(tmp_path, experiment())
    files = write_files(experiment(), blocks, tmp_path / "again")
    assert sorted(tmp_path.joinpath("again").iterdir()) == sorted(files)
    stems = {"average": {".tex", ".csv"}, "order-0": {".tex", ".csv"}, "course": {".png", ".svg"}}
    assert {(f.stem, f.suffix) for f in files} == {(s, x) for s in stems for x in stems[s]}


def test_without_results_there_are_no_files(tmp_path: Path) -> None:
    assert write_files(experiment(), {}, tmp_path / "nothing") == []
    assert not (tmp_path / "nothing").exists()


def test_pictures_that_need_no_walk_are_shown(tmp_path: Path) -> None:
    def draw(folder: Path) -> list[Path]:
        files = [folder / "stream.png", folder / "stream.svg"]
        for file in files:
            file.write_bytes(b"a picture")
        return files

    picture = Experiment("figure-stream", "The stream", draw=draw)
    assert "`rotta reproduce figure-stream` | not run yet |  |" in page_of(tmp_path, picture)
    files = write_files(picture, {}, tmp_path / "results" / "figure-stream")
    text = page_of(tmp_path, picture)
    assert "`rotta reproduce figure-stream` | complete |  |" in text
    assert "![The stream](../results/figure-stream/stream.png)" in text
    assert [file.name for file in files] == ["stream.png", "stream.svg"]


def test_walks_of_several_machines_and_commits_are_told_apart(tmp_path: Path) -> None:
    one = experiment()
    store = Store(one, tmp_path)
    store.add(one.variants[0], "bn", 0, walked(20.0, device="aarch64 CPU, 1 thread"))
    later = {"commit": "fedcba9876543210+", "time": "2026-01-03T10:00:00"}
    store.add(one.variants[0], "rotta", 0, walked(20.0, None, **later))
    lines = origin_lines(load(tmp_path))
    assert "- machine: aarch64 CPU, 1 thread; NVIDIA H200" in lines
    assert "- commit: 0123456789 (1 walk); fedcba9876+ (1 walk)" in lines
    assert "- measured: 2026-01-01 to 2026-01-03" in lines


def test_another_precision_is_in_the_origin(tmp_path: Path) -> None:
    one = experiment()
    store = Store(one, results_folder(tmp_path / "results", one, None))
    half = walked(20.0)
    half.options["precision"] = "float16"
    store.add(one.variants[0], "rotta:precision=float16", 0, half)
    text = page_of(tmp_path, one)
    assert "- precision: float32 (convolutions in TF32); RoTTA in float16\n" in text


def test_in_how_many_cells_it_was_another_precision() -> None:
    def block(*precisions: str) -> Result:
        options = {f"cotta:precision={name}": {"precision": name} for name in precisions}
        return Result({}, {"options": options}, {})

    blocks = {"a": block("float16"), "b": block("float32", "float16"), "c": block("float32")}
    (line,) = [line for line in origin_lines(blocks) if "precision" in line]
    assert line == "- precision: float32; CoTTA in float16 in 1 of 3 cells"


def test_the_page_of_all_experiments_is_whole_before_any_is_run(tmp_path: Path) -> None:
    text = page_of(tmp_path, *EXPERIMENTS.values())
    for name in EXPERIMENTS:
        assert f"](#{name})" in text
        assert f'<a id="{name}"></a>' in text
    assert text.count("<details>") == text.count("</details>")


def test_files_that_hold_no_results_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "results" / "table-digits" / "result.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no results"):
        page_of(tmp_path, experiment())
