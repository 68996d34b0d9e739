"""The table on DomainNet from end to end: real runner and networks, small images."""

import json
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from domain_tree import CLASSES, DOMAINS, write_domain_tree
from small_experiment import timeless
from typer.testing import CliRunner

import rotta
from forking import forked, forks
from rotta.adapters.choice import parse_methods
from rotta.cli import app, main
from rotta.datasets.base import ImageSet
from rotta.experiments import EXPERIMENTS
from rotta.experiments.cifar import COMPARED
from rotta.experiments.engines import Broken, run
from rotta.experiments.experiment import Experiment, Training, Variant
from rotta.experiments.reproduce import Wanted, carry_out, plan
from rotta.experiments.store import FILE, load
from rotta.experiments.tasks import Walk
from rotta.models import Classifier, build
from rotta.walk import walk

FULL = EXPERIMENTS["table-domainnet"]
FEW = 2  # images per domain
ENOUGH = 16  # five targets of them bring RoTTA to an update
CAPACITY = 64
QUICK_METHODS = tuple(label for label in COMPARED if label != "cotta")


def reduced(sources: Sequence[str] = DOMAINS, **training: Any) -> Experiment:
    """The experiment, all but the size of its images and the length of its trainings."""
    variants = [_small(v, **training) for v in FULL.variants if v.name in sources]
    return replace(FULL, variants=tuple(variants))


def _small(variant: Variant, **training: Any) -> Variant:
    assert isinstance(variant.source, Training)
    short = {"epochs": 1, "lr": 0.001, "batch_size": 8, "limit": 8, "image_size": 32}
    return replace(variant, source=replace(variant.source, **short | training), image_size=32)


ONE_SOURCE = reduced(("clipart",), arch="resnet-50")


def carried_out(
    results: Path, experiment: Experiment, wanted: Wanted, jobs: int = 1
) -> Iterator[str]:
    """Run what is missing, and say what is done."""
    for task, end in carry_out(plan([experiment], results, wanted), partial(run, jobs=jobs)):
        assert not isinstance(end, Broken), end.traceback
        if isinstance(task, Walk):
            yield f"{task.variant.name} {task.method}"
        else:
            yield task.training.name


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A DomainNet of six domains and 345 classes, an image of each to train on and to test on."""
    folder = tmp_path_factory.mktemp("home")
    write_domain_tree(folder / "data" / "domainnet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROTTA_HOME", str(folder))
        patch.setenv("ROTTA_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("ROTTA_COMMIT", "0123456")  # a commit may come in between
        yield folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One source and all methods but the dear one, run at one go."""
    results = tmp_path_factory.mktemp("whole")
    done = list(carried_out(results, ONE_SOURCE, Wanted(limit=FEW, methods=QUICK_METHODS)))
    assert done == ["domainnet-clipart", *(f"clipart {label}" for label in QUICK_METHODS)]
    return results


def folder(results: Path, limit: int = FEW) -> Path:
    return results / f"limit-{limit}" / "table-domainnet"


def tell_of_tasks(
    results: Path, experiment: Experiment, wanted: Wanted, jobs: int, tell: Connection
) -> None:
    for done in carried_out(results, experiment, wanted, jobs):
        tell.send(done)


def kill_after(
    line: str, results: Path, experiment: Experiment, limit: int, *, jobs: int, seconds: float
) -> None:
    """Let a process say the line, let it go on for a while, and kill it."""
    heard, tell = Pipe(duplex=False)
    wanted = Wanted(limit=limit)
    process = forked(tell_of_tasks, results, experiment, wanted, jobs, tell, daemon=False)
    tell.close()  # here, so that its end is the end of what is heard
    while heard.recv() != line:
        pass
    time.sleep(seconds)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_the_experiment_is_the_papers() -> None:
    assert [variant.name for variant in FULL.variants] == list(DOMAINS)
    for variant in FULL.variants:
        assert isinstance(variant.source, Training)
        assert (variant.source.arch, variant.source.domain) == ("resnet-101", variant.name)
        assert variant.methods == COMPARED
        assert variant.order == tuple(domain for domain in DOMAINS if domain != variant.name)
        assert (variant.source.image_size, variant.image_size) == (224, 224)


@forks
def test_killed_and_given_again_it_ends_the_same_with_every_cell(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # CoTTA is at work then
    kill_after("clipart lame", tmp_path, ONE_SOURCE, FEW, jobs=1, seconds=0.3)
    assert list(load(folder(tmp_path))["clipart"].methods) == ["source", "bn", "pl", "tent", "lame"]

    *_, cotta, note, last = carried_out(tmp_path, ONE_SOURCE, Wanted(limit=FEW))
    assert [cotta, note, last] == ["clipart cotta", "clipart note", "clipart rotta"]
    assert errors_and_origins(tmp_path, QUICK_METHODS) == errors_and_origins(whole, QUICK_METHODS)
    check_cells(tmp_path, ("clipart",), FEW)

    monkeypatch.setitem(EXPERIMENTS, "table-domainnet", ONE_SOURCE)
    words = ("table-domainnet", "--limit", str(FEW), "--device", "cpu", "--out", str(tmp_path))
    shown = CliRunner().invoke(app, ["reproduce", *words], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "8 of 8 walks are finished already" in shown.output
    stems = {file.stem for file in folder(tmp_path).glob("*.csv")}
    assert stems == {"average", *COMPARED} == {f.stem for f in folder(tmp_path).glob("*.tex")}


def errors_and_origins(results: Path, methods: Sequence[str]) -> dict[str, Any]:
    block = load(folder(results))["clipart"]
    walks = block.provenance["walks"]
    return {
        label: timeless([asdict(block.methods[label]), walks[f"{label}, seed 0"]])
        for label in methods
    }


def check_cells(results: Path, sources: Sequence[str], limit: int) -> None:
    """Every method has an error from each of these sources to every other domain."""
    blocks = load(folder(results, limit))
    averages, *per_method = FULL.present(blocks).grids
    assert [grid.name for grid in per_method] == list(COMPARED)
    places = [DOMAINS.index(source) for source in sources]
    for (_, entries), grid in zip(averages.rows, per_method, strict=True):
        assert all(entries[place].value is not None for place in places)
        for place in places:
            _, (*cells, average) = grid.rows[place]
            lacking = [i for i, cell in enumerate(cells) if cell.value is None]
            assert lacking == [place]
            assert not cells[place].applies
            assert average.value == pytest.approx(entries[place].value)


def test_every_target_is_walked_with_all_classes_known(whole: Path) -> None:
    config = load(folder(whole))["clipart"].config
    assert config["order"] == list(DOMAINS[1:])
    assert config["domain_sizes"] == [FEW] * 5
    assert len(config["classes"]) == CLASSES
    assert config["image_size"] == 32
    assert 90 < config["source_error"] <= 100  # of 345 classes it has seen 8


def test_with_more_classes_than_places_the_bank_fills_to_its_capacity() -> None:
    net = build("wrn-10-1", CLASSES).eval()
    learn_every_class(net, rotta.load_dataset("domainnet", split="train").domain("clipart"))
    data = rotta.load_dataset("domainnet", limit=80)
    assert len(data.classes) == CLASSES > CAPACITY
    stream = rotta.Stream(data, order=("clipart",), batch_size=40)
    (choice,) = parse_methods("rotta")
    bank = walk(choice.build(net, CLASSES, seed=0), stream).bank
    assert bank is not None
    assert bank.samples == [40, 80]
    assert {max(counts) for counts in bank.counts} == {1}  # a place is more than a class may have
    assert sum(bank.counts[-1]) == CAPACITY


@torch.no_grad()
def learn_every_class(net: Classifier, examples: ImageSet) -> None:
    """Have the last layer choose the class whose example is nearest: hours of training at once."""
    pixels = examples.images(np.arange(CLASSES)).float() / 255
    features = torch.cat([net.features(part) for part in torch.split(pixels, CAPACITY)])
    mean, scale = features.mean(dim=0), features.std()
    centred = (features - mean) / scale
    net.head.weight[examples.labels] = centred / scale
    net.head.bias[examples.labels] = -(centred @ mean) / scale - centred.square().sum(dim=1) / 2


@pytest.mark.parametrize("lacking", ["everything", "a list"])
def test_without_the_images_it_stops_at_once(
    lacking: str,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = tmp_path / "home" / "data" / "domainnet"
    if lacking == "a list":
        found.mkdir(parents=True)
        for part in (home / "data" / "domainnet").iterdir():
            if part.name != "sketch_test.txt":
                (found / part.name).symlink_to(part)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["rotta", "reproduce", "table-domainnet"])
    with pytest.raises(SystemExit, match="2"):
        main()
    told = " ".join(capsys.readouterr().err.split())
    missing = f"no {found}" if lacking == "everything" else f"{found} lacks sketch_test.txt"
    assert f"DomainNet was not found ({missing}; " in told
    assert "download the cleaned version from http://ai.bu.edu/M3SDA/" in told
    assert told.endswith(f"unpack it in {tmp_path / 'cache' / 'data' / 'domainnet'}")
    assert sorted(tmp_path.rglob("*")) == before


@forks
@pytest.mark.slow
def test_six_sources_killed_while_training_and_while_walking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    at_one_go, killed = tmp_path / "at one go", tmp_path / "killed"
    wanted = Wanted(limit=ENOUGH)
    assert len(list(carried_out(at_one_go, reduced(), wanted, jobs=2))) == 6 + 6 * 8
    check_cells(at_one_go, DOMAINS, ENOUGH)

    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "another cache"))
    draw = random.Random(0)
    for line in ("domainnet-infograph", "clipart bn", "infograph cotta", "real note"):
        kill_after(line, killed, reduced(), ENOUGH, jobs=2, seconds=3 * draw.random())
    list(carried_out(killed, reduced(), wanted, jobs=2))
    ours, theirs = (
        timeless(json.loads((folder(results, ENOUGH) / FILE).read_text()))
        for results in (killed, at_one_go)
    )
    assert ours == theirs
