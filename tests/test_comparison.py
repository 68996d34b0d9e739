"""Methods over the streams of several seeds, and the file that is kept about them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rotta
from rotta.adapters import METHODS, Adapter
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
    methods: str, seeds: list[int], look: list[Look] | None = None
) -> Iterator[Finished | Failed]:
    net = rotta.load_source("digits")
    tell = None if look is None else look.append
    return compare(parse_methods(methods), net, seeds, stream_of, tell)


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


def test_a_method_that_raises_ends_its_own_walks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", FailsLate)
    ends = list(compared("source,tent,bn", [0]))
    assert [type(end) for end in ends] == [Finished, Failed, Finished]
    assert isinstance(ends[1], Failed)
    assert (ends[1].label, ends[1].reason) == ("tent", "RuntimeError: out of memory")
    assert "Traceback" in ends[1].traceback


def test_what_the_stream_raises_is_no_methods_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(self: rotta.Stream) -> Iterator[rotta.Batch]:
        yield from list(self.starting_at(0))[:2]
        raise OSError("the disk is gone")

    monkeypatch.setattr(rotta.Stream, "__iter__", torn)
    with pytest.raises(OSError, match="the disk is gone"):
        list(compared("source,bn", [0]))


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
