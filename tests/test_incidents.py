"""What guards do and what is skipped on a walk is in its result, in terms of the stream."""

import math
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import rotta
from rotta.adapters.choice import parse_methods
from rotta.checkpoint import Checkpoint
from rotta.comparison import Finished, compare
from rotta.datasets.base import Dataset
from rotta.guard import guard as guard_module
from rotta.incidents import Incidents
from rotta.record import Record
from rotta.results import Result, SeedResult
from rotta.walk import walk

FAST = "tent:lr=0.05:guard=true:bad_input=skip"


@pytest.fixture(autouse=True)
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards that look often and cannot bear much."""
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(guard_module, "LOOK_EVERY", 3)
    monkeypatch.setattr(guard_module, "QUIET_PER_ALARM", 2)
    monkeypatch.setattr(guard_module, "TOO_FAR", 1e-2)


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=40)


def stream_of(seed: int = 0, **options: Any) -> rotta.Stream:
    return rotta.Stream(digits(), order=("fog", "snow"), batch_size=7, seed=seed, **options)


def built(label: str = FAST) -> rotta.Adapter:
    (choice,) = parse_methods(label)
    return choice.build(rotta.load_source("digits"), 10)


class Broken(Exception):
    pass


class BadCamera:
    """A method that gets to see a spoilt image in every third batch, and breaks off at last."""

    def __init__(self, model: rotta.Adapter, batches: float = math.inf) -> None:
        self._model, self._batches_left = model, batches
        self.reset = model.reset
        self.broken_images = 0

    def __call__(self, x: Tensor) -> Tensor:
        if self._batches_left == 0:
            raise Broken
        self._batches_left -= 1
        if int(x.sum() * 1000) % 3 == 0:  # by the image, so that a second walk meets the same
            x = x.clone()
            x[0] = torch.nan
            self.broken_images += 1
        logits: Tensor = self._model(x)
        return logits

    @property
    def events(self) -> Any:
        return self._model.events

    @property
    def skipped(self) -> dict[str, int]:
        return self._model.skipped


def timeless(result: SeedResult) -> dict[str, Any]:
    return {**vars(result), "ms_per_batch": 0.0}


def test_events_are_placed_in_the_stream() -> None:
    model, stream = built(), stream_of()
    scored = walk(model, stream)
    told = [(event.action, event.rate, event.signals) for event in scored.events]
    assert told == [(e["action"], e["rate"], e["signals"]) for e in model.events]
    assert len(told) >= 3
    # a guard acts when a batch has been predicted, on what was seen of those before it
    assert [event.batch for event in scored.events] == [e["batch"] + 1 for e in model.events]
    batches = list(stream)
    for event in scored.events:
        assert event.samples == sum(len(batch.y) for batch in batches[: event.batch])
        domains = batches[event.batch - 1].domain.tolist()
        assert event.domain == stream.domains[max(set(domains), key=domains.count)]
    assert {event.domain for event in scored.events} == {"fog", "snow"}
    assert scored.skipped is None


def test_what_a_reset_makes_a_method_forget_is_kept() -> None:
    """Two visits of two domains are four episodes, and a method is reset before each."""
    camera, stream = BadCamera(built()), stream_of(setting="fully", visits=2)
    scored = walk(camera, stream)
    assert len(scored.events) > len(camera.events)
    numbers = [event.batch for event in scored.events]
    assert numbers == sorted(numbers)
    assert numbers[-1] > numbers[0] + 3 * len(stream) // 4 - 3
    assert scored.skipped == {"non-finite": camera.broken_images}
    assert camera.broken_images > camera.skipped["non-finite"]


@pytest.mark.parametrize("setting", ["ptta", "fully"])
def test_a_walk_that_breaks_off_tells_the_same(setting: str, tmp_path: Path) -> None:
    stream = stream_of(setting=setting, visits=2)
    straight = walk(BadCamera(built()), stream)
    path = tmp_path / "walk.safetensors"
    model = built()
    with pytest.raises(Broken):
        walk(BadCamera(model, 8), stream, checkpoint=Checkpoint(path, model, every=1e-9))
    model = built()
    resumed = walk(BadCamera(model), stream, checkpoint=Checkpoint(path, model, math.inf))
    assert timeless(resumed) == timeless(straight)
    assert resumed.events
    assert resumed.skipped


def test_a_comparison_hands_them_on_and_a_file_keeps_them(tmp_path: Path) -> None:
    net = rotta.load_source("digits")
    record = Record(tmp_path / "result.json", ["source", FAST], [0], {}, {})
    for end in compare(parse_methods(f"source,{FAST}"), net, [0], stream_of):
        assert isinstance(end, Finished)
        record.add(end)
    stored = Result.load(tmp_path / "result.json").methods
    assert stored == record.result().methods
    compared, alone = stored[FAST].seeds["0"].events, walk(built(), stream_of()).events
    # signals differ in their last digits: a comparison lays the network out otherwise
    assert [(e.batch, e.action) for e in compared] == [(e.batch, e.action) for e in alone]
    assert compared
    assert stored["source"].seeds["0"].events == []


def test_a_method_that_begins_anew_by_itself_counts_on() -> None:
    batch: Any = SimpleNamespace(
        number=0, y=torch.zeros(2), domain=torch.zeros(2, dtype=torch.int64), restart=False
    )
    incidents = Incidents(["fog"])
    for count in (1, 2, 1, 1, 4):
        incidents.add(batch, [], {"range": count, "empty": 0})
    assert incidents.skipped() == {"range": 6}
