"""Methods over the streams of several seeds, and the file that is kept about them."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rotta
from rotta.adapters import METHODS, Adapter, Source
from rotta.adapters.choice import parse_methods
from rotta.comparison import Failed, Finished, Look, compare
from rotta.datasets.base import Dataset
from rotta.record import Record
from rotta.results import Result, provenance
from rotta.walk import walk


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=30)


def stream_of(seed: int, **options: Any) -> rotta.Stream:
    options = {"order": ("fog", "snow"), "batch_size": 8, **options}
    return rotta.Stream(digits(), seed=seed, **options)


def compared(
    methods: str, seeds: list[int], look: list[Look] | None = None, jobs: int = 1
) -> Iterator[Finished | Failed]:
    net = rotta.load_source("digits")
    tell = None if look is None else look.append
    return compare(parse_methods(methods), net, seeds, stream_of, tell, jobs)


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class FailsLate(Adapter):
    """A method that raises at the third batch."""

    def __init__(self, net: nn.Module, num_classes: int) -> None:
        super().__init__(net, num_classes)
        self.batches = 0

    def infer(self, x: Tensor) -> Tensor:
        self.batches += 1
        if self.batches == 3:
            raise RuntimeError("out of memory")
        logits: Tensor = self.source_net(x)
        return logits


class Dies(Source):
    """A method whose process is killed at the third batch."""

    batches = 0

    def infer(self, x: Tensor) -> Tensor:
        self.batches += 1
        if self.batches == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().infer(x)


forks = pytest.mark.skipif(sys.platform != "linux", reason="forks, as only Linux allows")
learns_in_forks = pytest.mark.skipif(
    sys.platform != "linux" or torch.cuda.is_available(),
    reason="a process in which autograd has threads for GPUs cannot be forked",
)


def test_every_method_walks_every_stream_and_is_scored_as_if_alone() -> None:
    options = "rotta:update_every=8:capacity=8"
    ends = list(compared(f"source,{options}", [3, 1]))
    assert [(end.label, end.seed) for end in ends] == [
        ("source", 3),
        (options, 3),
        ("source", 1),
        (options, 1),
    ]
    net = rotta.load_source("digits").to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for end in ends:
        assert isinstance(end, Finished)
        (choice,) = parse_methods(end.label)
        alone = walk(choice.build(net, 10, seed=end.seed), stream_of(end.seed))
        assert replace(end.result, ms_per_batch=0.0) == replace(alone, ms_per_batch=0.0)


def test_what_a_walk_brings_adds_up() -> None:
    stream = stream_of(0)
    steps = list(rotta.evaluate(rotta.load_source("digits").eval(), stream))
    wrong = sum(int(step.wrong.sum()) for step in steps)
    scored = walk(rotta.load_source("digits").eval(), stream)
    assert list(scored.per_domain) == ["fog", "snow"]
    assert scored.average_error == pytest.approx(100 * wrong / 60)  # both domains hold 30
    assert scored.windows.samples == [8, 16, 24, 32, 40, 48, 56, 60]
    assert set(scored.per_class) <= set(stream.dataset.classes)
    assert scored.bank is None
    assert scored.ms_per_batch > 0


def test_a_bank_is_followed_to_the_end() -> None:
    (choice,) = parse_methods("rotta:capacity=20")
    model = choice.build(rotta.load_source("digits"), 10)
    bank = walk(model, stream_of(0)).bank
    assert bank is not None
    assert bank.samples == [8, 16, 24, 32, 40, 48, 56, 60]
    held: Any = model.bank
    labels = held.label[held.label >= 0]
    assert list(bank.counts[-1]) == torch.bincount(labels, minlength=10).tolist()
    assert bank.age[-1] == pytest.approx(held.age[held.label >= 0].double().mean().item())


def test_a_method_without_reset_walks_through_a_stationary_setting() -> None:
    scored = walk(lambda x: torch.zeros(len(x), 10), stream_of(0, setting="non-iid"))
    assert set(scored.windows.balance) == {0.0}


def test_looks_say_how_far_a_walk_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotta.walk.SECONDS_PER_LOOK", 0)
    looks: list[Look] = []
    (end,) = compared("source", [0], looks)
    assert [look.batches for look in looks] == list(range(1, 9))
    assert {(look.label, look.seed, look.total) for look in looks} == {("source", 0, 8)}
    assert isinstance(end, Finished)
    assert looks[-1].error == end.result.average_error


@learns_in_forks
@pytest.mark.usefixtures("one_thread")
def test_walks_side_by_side_end_like_those_one_by_one() -> None:
    methods = "source,tent,lame,note,rotta:update_every=8:capacity=8"
    ends = {
        jobs: {(end.label, end.seed): end for end in compared(methods, [0, 1], jobs=jobs)}
        for jobs in (1, 2)
    }
    assert len(ends[2]) == 10
    for key, alone in ends[1].items():
        beside = ends[2][key]
        assert isinstance(alone, Finished)
        assert isinstance(beside, Finished)
        assert replace(beside.result, ms_per_batch=0.0) == replace(alone.result, ms_per_batch=0.0)


@forks
def test_the_dearest_walks_are_begun_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, passes in (("bn", 5), ("lame", 9)):
        monkeypatch.setattr(METHODS[name], "PASSES", passes)
    source, bn, lame = (f"{name}:bad_input=skip" for name in ("source", "bn", "lame"))
    looks: list[Look] = []
    ends = compared(f"{source},{bn},{lame}", [0], looks, jobs=2)
    assert next(ends).label != source
    assert {look.label for look in looks} <= {bn, lame}
    assert len(list(ends)) == 2
    assert {look.label for look in looks} == {source, bn, lame}


@forks
def test_images_are_made_once_for_all_processes(tmp_path: Path) -> None:
    makers = tmp_path / "makers"

    def note(done: int, total: int) -> None:
        with makers.open("a") as file:
            file.write(f"{os.getpid()}\n")

    data = rotta.load_dataset("digits-c", limit=5, progress=note)
    net = rotta.load_source("digits")
    walks = compare(
        parse_methods("source,bn,lame"),
        net,
        [0],
        lambda seed: rotta.Stream(data, order=("fog", "snow"), seed=seed),
        jobs=2,
    )
    assert len(list(walks)) == 3
    assert makers.read_text().split() == [str(os.getpid())] * 2


@forks
def test_a_method_whose_process_is_killed_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", Dies)
    ends = {end.label: end for end in compared("source,tent,bn,lame", [0], jobs=2)}
    lost = ends.pop("tent")
    assert isinstance(lost, Failed)
    assert lost.reason.startswith("its process was killed")
    assert [type(ends[label]) for label in ("source", "bn", "lame")] == [Finished] * 3


def test_jobs_below_one_are_refused_before_the_first_step() -> None:
    with pytest.raises(ValueError, match="jobs must be 1 or more"):
        compared("source", [0], jobs=0)


def test_what_is_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the seed 3 is named twice"):
        compared("source,bn", [3, 1, 3])
    bn = parse_methods("bn")
    with pytest.raises(ValueError, match="the method bn is named twice"):
        compare(bn + bn, rotta.load_source("digits"), [0], stream_of)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=forks)])
def test_a_method_that_raises_ends_its_own_walks_alone(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "tent", FailsLate)
    ends = {end.label: end for end in compared("source,tent,bn", [0], jobs=jobs)}
    failed = ends["tent"]
    assert isinstance(failed, Failed)
    assert failed.reason == "RuntimeError: out of memory"
    assert "in infer" in failed.traceback
    assert [type(ends[label]) for label in ("source", "bn")] == [Finished, Finished]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=forks)])
def test_what_the_stream_raises_is_no_methods_failure(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rotta.Stream.starting_at

    def torn(self: rotta.Stream, batch_number: int) -> Iterator[rotta.Batch]:
        yield from list(whole(self, batch_number))[:2]
        raise OSError("the disk is gone")

    monkeypatch.setattr(rotta.Stream, "starting_at", torn)
    with pytest.raises(OSError, match="the disk is gone"):
        list(compared("source,bn", [0], jobs=jobs))


def test_a_method_that_does_not_suit_the_network_is_refused_before_the_first_step() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    with pytest.raises(ValueError, match="no "):
        compare(parse_methods("source,rotta"), net, [0], stream_of)


def test_the_record_says_at_every_moment_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    origin = provenance("cpu", {"file": "md5"})
    record = Record(path, ["rotta", "source"], [0, 1], {"dataset": "digits-c"}, origin)
    assert not path.exists()
    seen = []
    for end in compared("source,rotta", [0, 1]):
        record.add(end)
        stored = Result.load(path)
        seen.append({label: list(method.seeds) for label, method in stored.methods.items()})
        assert stored.config["complete"] == (len(seen) == 4)
    assert seen == [
        {"source": ["0"]},
        {"rotta": ["0"], "source": ["0"]},
        {"rotta": ["0"], "source": ["0", "1"]},
        {"rotta": ["0", "1"], "source": ["0", "1"]},
    ]
    assert list(stored.methods) == ["rotta", "source"]  # as asked for, not as finished
    assert stored == record.result()
    assert stored.config["seeds"] == [0, 1]
    assert stored.config["methods"] == ["rotta", "source"]
    assert {"time", "versions", "device", "commit", "data"} <= set(stored.provenance)


def test_the_order_in_which_walks_end_is_not_in_the_record(tmp_path: Path) -> None:
    ends = [
        *compared("source,bn", [1, 0]),
        *(Failed(label, seed, "", "") for seed in (1, 0) for label in ("tent", "lame")),
    ]
    texts: list[str] = []
    for order in (ends, ends[::-1]):
        path = tmp_path / f"{len(texts)}.json"
        record = Record(path, ["source", "tent", "bn", "lame"], [1, 0], {}, {})
        for end in order:
            record.add(end)
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    assert list(json.loads(texts[0])["methods"]["bn"]["seeds"]) == ["1", "0"]


def test_the_record_keeps_failures_and_what_is_finished_beside_them(tmp_path: Path) -> None:
    record = Record(tmp_path / "result.json", ["source", "tent"], [0], {}, {})
    (source,) = compared("source", [0])
    record.add(source)
    record.add(Failed("tent", 0, "RuntimeError: out of memory", "Traceback"))
    config = json.loads((tmp_path / "result.json").read_text())["config"]
    assert config["complete"] is False
    (failed,) = config["failed"]
    assert (failed["label"], failed["seed"]) == ("tent", 0)
    assert failed["reason"] == "RuntimeError: out of memory"
    assert list(record.result().methods) == ["source"]
    assert record.walks == 1
