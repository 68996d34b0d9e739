"""Experiments are run, stopped, continued, and share what they have in common."""

import json
import random
import shutil
import signal
import time
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from small_experiment import (
    DOMAINS,
    EXPERIMENT,
    WANTED,
    carried_out,
    timeless,
    variant,
    walks_done,
)

from forking import forked, forks
from rotta.experiments import EXPERIMENTS
from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Experiment, Training, Variant
from rotta.experiments.reproduce import Wanted, carry_out, plan
from rotta.experiments.store import FILE, Store, claimed, load
from rotta.results import Result

STORED = {
    "correlated: source": 51.3,
    "correlated: bn": 29.3,
    "correlated: rotta": 48.0,
    "correlated: cotta:passes=2": 56.0,
    "independent: source": 51.3,
    "independent: rotta:alpha=0.1": 42.3,
}


@pytest.fixture(autouse=True)
def _own_cache(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(shared_cache))


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits' corrupted images are made once for all tests here."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """The small experiment, run at one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROTTA_CACHE", str(shared_cache))
        results = tmp_path_factory.mktemp("whole")
        carried_out(results)
    return results


def folder(results: Path, name: str = "small") -> Path:
    return results / "limit-50" / name


def stored(results: Path) -> Any:
    return timeless(json.loads((folder(results) / FILE).read_text()))


def test_seed_by_seed_and_the_dear_method_once(tmp_path: Path) -> None:
    walks = list(plan([EXPERIMENT], tmp_path, WANTED).walks)
    assert [walk.seed for walk in walks] == [0] * 6 + [1] * 5
    assert [w.seed for w in walks if w.method == "cotta:passes=2"] == [0]


def test_errors_are_what_they_were(whole: Path) -> None:
    blocks = load(folder(whole))
    errors = {
        f"{name}: {label}": method.average_error
        for name, block in blocks.items()
        for label, method in block.methods.items()
    }
    # other processors round otherwise: two of 300 predictions may differ
    assert errors == pytest.approx(STORED, abs=0.7)


def test_blocks_have_the_schema_of_a_run(whole: Path, tmp_path: Path) -> None:
    stored = json.loads((folder(whole) / FILE).read_text())
    assert list(stored["blocks"]) == ["correlated", "independent"]
    (tmp_path / "result.json").write_text(json.dumps(stored["blocks"]["correlated"]))
    run = Result.load(tmp_path / "result.json")
    assert run.config["order"] == list(DOMAINS)
    assert run.config["seeds"] == [0, 1]
    assert run.config["options"]["rotta"]["alpha"] == 0.05
    assert run.methods["rotta"].std is not None
    assert set(run.provenance["walks"]) >= {"rotta, seed 0", "rotta, seed 1", "source, seed 0"}


def test_nothing_is_done_twice(whole: Path) -> None:
    before = (folder(whole) / FILE).read_bytes()
    todo = plan([EXPERIMENT], whole, WANTED)
    assert not todo.walks
    assert todo.finished == 11
    assert (folder(whole) / FILE).read_bytes() == before


def tell_of_walks(results: Path, jobs: int, tell: Connection) -> None:
    for done in walks_done(results, jobs=jobs):
        tell.send(done)


@forks
@pytest.mark.parametrize(("jobs", "kills"), [(1, 3), (2, 1)])
def test_killed_at_any_moment_it_ends_the_same(
    whole: Path, tmp_path: Path, jobs: int, kills: int
) -> None:
    draw = random.Random(jobs)
    for _ in range(kills):
        heard, tell = Pipe(duplex=False)
        process = forked(tell_of_walks, tmp_path, jobs, tell, daemon=False)
        heard.recv()  # one walk is over; the next is somewhere
        time.sleep(draw.uniform(0, 0.2))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert 1 <= len(carried_out(tmp_path)) < 11
    assert stored(tmp_path) == stored(whole)


def test_walks_in_common_are_done_once(whole: Path, tmp_path: Path) -> None:
    other = Experiment("other", "", (variant("again", ("rotta", "bn")),))
    done = carried_out(tmp_path, EXPERIMENT, other, wanted=replace(WANTED, seeds=(0,)))
    assert len(done) == 6
    theirs = load(folder(tmp_path, "other"))["again"].methods["rotta"].seeds["0"]
    assert theirs == load(folder(tmp_path))["correlated"].methods["rotta"].seeds["0"]


def test_walks_of_another_experiment_are_taken_over(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "small", EXPERIMENT)
    results = Path(shutil.copytree(whole, tmp_path / "r"))
    other = Experiment("other", "", (variant("again", ("rotta", "tent")),))
    todo = plan([other], results, WANTED)
    assert [(walk.method, walk.seed) for walk in todo.walks] == [("tent", 0), ("tent", 1)]
    taken = load(folder(results, "other"))["again"]
    assert taken.methods["rotta"] == load(folder(whole))["correlated"].methods["rotta"]
    assert taken.provenance["walks"]["rotta, seed 1"]["versions"]


def test_results_of_other_settings_are_refused_and_kept(whole: Path) -> None:
    before = (folder(whole) / FILE).read_bytes()
    changed = replace(
        EXPERIMENT, variants=(replace(EXPERIMENT.variants[0], delta=1.0), EXPERIMENT.variants[1])
    )
    with pytest.raises(ValueError, match=r"made with other settings for 'correlated'.*--out"):
        plan([changed], whole, WANTED)
    assert (folder(whole) / FILE).read_bytes() == before


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    folder(tmp_path).mkdir(parents=True)
    (folder(tmp_path) / FILE).write_text('{"methods": 3}')
    with pytest.raises(ValueError, match=r"holds no results of an experiment"):
        Store(EXPERIMENT, folder(tmp_path))


@pytest.mark.parametrize(
    "lost", [("config", "dataset"), ("config", "options"), ("provenance", "walks")]
)
def test_a_file_that_was_edited_is_refused(
    whole: Path, tmp_path: Path, lost: tuple[str, str]
) -> None:
    edited = json.loads((folder(whole) / FILE).read_text())
    del edited["blocks"]["correlated"][lost[0]][lost[1]]
    (tmp_path / FILE).write_text(json.dumps(edited))
    with pytest.raises(ValueError, match=r"holds no results of an experiment \(KeyError"):
        load(tmp_path)


def test_results_of_another_experiment_are_refused(whole: Path) -> None:
    other = Experiment("other", "", (variant("again", ("rotta",)),))
    with pytest.raises(ValueError, match=r"is not of other, which has no 'correlated'"):
        Store(other, folder(whole))


def test_other_images_or_weights_are_refused(whole: Path) -> None:
    store = Store(EXPERIMENT, folder(whole))
    (first, _) = EXPERIMENT.variants
    _, walked = next(store.walks())
    data, weights = walked.provenance["data"], walked.provenance["source weights"]
    store.check_origin(first, data, weights)
    store.check_origin(first, data, None)
    with pytest.raises(ValueError, match="walks of other data"):
        store.check_origin(first, {**data, "seed": "1"}, weights)
    with pytest.raises(ValueError, match="walks of other source weights"):
        store.check_origin(first, data, "0123456789abcdef")


def test_patterns_choose_methods_and_variants(tmp_path: Path) -> None:
    wanted = Wanted(methods=("rotta*",), variants=("indep*",))
    (walk,) = plan([EXPERIMENT], tmp_path, wanted).walks
    assert (walk.variant.name, walk.method) == ("independent", "rotta:alpha=0.1")
    with pytest.raises(ValueError, match="no walk fits"):
        plan([EXPERIMENT], tmp_path, Wanted(methods=("nothing",)))


def test_another_precision_is_another_walk_of_methods_that_have_several(tmp_path: Path) -> None:
    wanted = Wanted(precision="float16", variants=("correlated",))
    labels = [walk.method for walk in plan([EXPERIMENT], tmp_path, wanted).walks]
    several = ["rotta:precision=float16", "cotta:passes=2:precision=float16"]
    assert labels == ["source", "bn", *several]


def test_two_processes_do_not_write_to_one_place(tmp_path: Path) -> None:
    refused = pytest.raises(ValueError, match="another `rotta reproduce`")
    with claimed(tmp_path), refused, claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_all_domains_of_a_set_without_corruptions_are_continued_too(tmp_path: Path) -> None:
    own = Experiment("own", "", (Variant("v", "digits", "digits", ("source", "bn")),))
    wanted = Wanted(limit=20)
    assert len(carried_out(tmp_path, own, wanted=wanted)) == 2
    assert carried_out(tmp_path, own, wanted=wanted) == []


def test_the_dear_method_keeps_the_seed_that_it_has(tmp_path: Path) -> None:
    carried_out(tmp_path, wanted=replace(WANTED, seeds=(0,), methods=("cotta*",)))
    later = plan([EXPERIMENT], tmp_path, replace(WANTED, seeds=(1, 2)))
    assert "cotta:passes=2" not in {walk.method for walk in later.walks}


def test_walks_of_a_source_that_cannot_be_trained_are_not_tried(tmp_path: Path) -> None:
    training = Training("t", "digits", "clean", "wrn-10-1", "no-such-file.pth", 1, 0.1, 2)
    bad = replace(EXPERIMENT.variants[0], name="bad", source=training)
    experiment = Experiment("own", "", (bad, EXPERIMENT.variants[1]))
    todo = plan([experiment], tmp_path, replace(WANTED, seeds=(0,), methods=("source",)))
    ends = list(carry_out(todo, partial(run, jobs=1)))
    assert [isinstance(end, Broken) for _, end in ends] == [True, True, False]
    assert list(load(folder(tmp_path, "own"))) == ["independent"]


def test_a_refusal_changes_no_other_results(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "r")
    other = Experiment("other", "", (variant("again", ("rotta", "bn")),))
    first, second = EXPERIMENT.variants
    changed = replace(EXPERIMENT, variants=(replace(first, delta=1.0), second))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "small", EXPERIMENT)
        with pytest.raises(ValueError, match="other settings"):
            plan([other, changed], tmp_path / "r", WANTED)
    assert not folder(tmp_path / "r", "other").exists()


def test_a_block_states_where_its_latest_walk_came_from(tmp_path: Path) -> None:
    (first, _) = EXPERIMENT.variants
    carried_out(tmp_path, wanted=replace(WANTED, seeds=(0,), methods=("source",)))
    block = load(folder(tmp_path))["correlated"]
    (walked,) = [w for i, w in Store(EXPERIMENT, folder(tmp_path)).walks() if i.order == DOMAINS][
        :1
    ]
    store = Store(EXPERIMENT, folder(tmp_path))
    for seed, day in ((5, "2001-01-01"), (6, "2999-01-01")):
        origin = {**walked.provenance, "time": day, "commit": day}
        store.add(first, "bn", seed, replace(walked, provenance=origin))
    assert store.blocks["correlated"].provenance["commit"] == "2999-01-01"
    assert block.provenance["commit"] != "2999-01-01"


def test_a_walk_leaves_the_threads_as_they_were(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        carried_out(tmp_path, wanted=replace(WANTED, seeds=(0,), methods=("source",)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
