"""Methods that keep nothing walk together, in legs, and nobody can tell from their results."""

import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import rotta
from forking import forked
from rotta.adapters import METHODS, Source
from rotta.adapters.choice import parse_methods
from rotta.checkpoint import Checkpoints
from rotta.comparison import Failed, Finished, Look, compare
from rotta.datasets.base import Dataset
from rotta.legs import Leg, LegLook, Walker, cut_into_legs, walk_leg
from rotta.metrics import batches_per_window
from rotta.party import Party
from rotta.results import SeedResult
from rotta.side_by_side import Lost
from rotta.walk import walk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, as only Linux allows")

TOGETHER = "source,bn,lame,lame:neighbours=2"
EACH_BATCH = 1e-9


@pytest.fixture(autouse=True)
def short_legs_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rotta.legs.LEAST_BATCHES", 2)
    monkeypatch.setattr(Noting, "file", tmp_path / "batches")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=33)


def stream_of(seed: int = 0, **options: Any) -> rotta.Stream:
    """Of 17 batches, the last of which holds two images."""
    options = {"order": ("fog", "snow"), "batch_size": 4, **options}
    return rotta.Stream(digits(), seed=seed, **options)


@cache
def net() -> nn.Module:
    return rotta.load_source("digits").to(memory_format=torch.channels_last)  # type: ignore[no-any-return,call-overload]


def compared(
    methods: str, seeds: tuple[int, ...] = (0,), jobs: int = 2, **options: Any
) -> dict[tuple[str, int], Finished | Failed]:
    ends = list(compare(parse_methods(methods), net(), seeds, stream_of, jobs=jobs, **options))
    by_walk = {(end.label, end.seed): end for end in ends}
    assert len(by_walk) == len(ends)
    return by_walk


def timeless(end: Finished | Failed) -> SeedResult:
    assert isinstance(end, Finished), end
    return replace(end.result, ms_per_batch=0.0)


def alone(label: str, seed: int = 0) -> SeedResult:
    (choice,) = parse_methods(label)
    return replace(walk(choice.build(net(), 10, seed=seed), stream_of(seed)), ms_per_batch=0.0)


class Noting(Source):
    """Writes down each batch that it is asked about."""

    KEEPS_NOTHING = True
    file = Path()

    def infer(self, x: Tensor) -> Tensor:
        with self.file.open("a") as file:
            file.write(f"{x.sum().item()}\n")
        return super().infer(x)

    @classmethod
    def asked(cls) -> Counter[float]:
        """How often about which batch, by the sum of its pixels."""
        return Counter(map(float, cls.file.read_text().split()))


class Clock:
    """Goes on only when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        for name in ("monotonic", "perf_counter"):
            monkeypatch.setattr(time, name, lambda: self.now)

    def takes(self, seconds: float) -> Any:
        """A hook that takes so long."""

        def passes(*_: object) -> None:
            self.now += seconds

        return passes


ALL_ONCE = [1] * 17


class Raises(Source):
    """Raises at the second batch of each leg, before or after it has seen the pass."""

    KEEPS_NOTHING = True
    before = True
    batches = 0

    def infer(self, x: Tensor) -> Tensor:
        self.batches += 1
        if self.before and self.batches == 2:
            raise RuntimeError("out of memory")
        logits = super().infer(x)
        if self.batches == 2:
            raise RuntimeError("out of memory")
        return logits


class Kills(Noting):
    """Kills a process in the middle of the stream, if it shall."""

    KEEPS_NOTHING = True
    whom = "nobody"

    def infer(self, x: Tensor) -> Tensor:
        logits = super().infer(x)
        if self.whom != "nobody" and x.sum() == list(stream_of())[9].x.sum():
            os.kill(os.getpid() if self.whom == "itself" else os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return logits


# How a stream is cut


@pytest.mark.parametrize("jobs", [2, 3, 16])
@pytest.mark.parametrize("batches", [0, 1, 2, 7, 8, 9, 100, 119, 120, 121, 240, 841, 2345])
def test_legs_are_the_stream_cut_where_windows_end(
    batches: int, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rotta.legs.LEAST_BATCHES", 8)
    legs = cut_into_legs(batches, jobs)
    assert [number for leg in legs for number in leg] == list(range(batches))
    assert all(leg.start % batches_per_window(batches) == 0 for leg in legs)
    least = max(8, batches_per_window(batches))
    assert all(least <= len(leg) for leg in legs) or len(legs) == 1
    assert len(legs[-1]) < 3 * least
    sizes = [len(leg) for leg in legs[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(legs[0]) <= max(2 * least, batches / (2 * jobs))


# Results


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 1, "visits": 3},  # 198 batches, two to a window
        {"setting": "fully", "visits": 2},  # with episodes
    ],
)
def test_together_they_bring_what_each_brings_alone(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "stream_of", lambda seed, of=stream_of: of(seed, **options))
    apart = compared(TOGETHER, (3, 1), jobs=1)
    assert len(cut_into_legs(len(stream_of(3)), jobs=2)) > 4
    together = compared(TOGETHER, (3, 1))
    assert set(together) == set(apart)
    assert len(together) == 8
    for key, end in together.items():
        assert timeless(end) == timeless(apart[key])
        assert isinstance(end, Finished)
        assert end.result.ms_per_batch > 0
        assert end.seconds > 0


def test_those_that_keep_something_walk_as_ever() -> None:
    methods = "source:bad_input=skip,source,bn:class_mix=true,lame"
    apart, together = compared(methods, jobs=1), compared(methods)
    assert {key: timeless(end) for key, end in together.items()} == {
        key: timeless(end) for key, end in apart.items()
    }


def test_a_stream_of_nothing_has_an_end() -> None:
    photos = SimpleNamespace(
        labels=np.arange(0), images=lambda _: torch.zeros(0, 3, 32, 32, dtype=torch.uint8)
    )
    nothing: Any = SimpleNamespace(
        classes=tuple("0123456789"), domains=("fog",), domain=lambda name, severity: photos
    )
    looks: list[Look] = []
    choices = parse_methods("source,bn")
    ends = compare(choices, net(), [0], lambda _: rotta.Stream(nothing), looks.append, jobs=2)
    assert [(end.label, timeless(end).windows.samples) for end in ends] == [
        ("source", []),
        ("bn", []),
    ]
    assert {look.batches for look in looks} == {0}


def test_legs_are_begun_last() -> None:
    looks: list[Look] = []
    methods = "source,bn:bad_input=skip,lame,source:bad_input=skip"
    ends = compare(parse_methods(methods), net(), [0], stream_of, looks.append, jobs=2)
    assert next(ends).label.endswith("skip")
    first_of_each = list(dict.fromkeys(look.label for look in looks))
    assert all(label.endswith("skip") for label in first_of_each[:1])
    assert [end.label for end in ends][-2:] == ["source", "lame"]


def test_only_those_that_are_not_finished_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", Noting)
    ends = compared("source,tent,bn", (0, 1), finished=[("tent", 0), ("bn", 1), ("source", 1)])
    assert sorted(ends) == [("bn", 0), ("source", 0), ("tent", 1)]
    assert timeless(ends["bn", 0]) == alone("bn")
    assert list(Noting.asked().values()) == ALL_ONCE


# The pass that is shared, and who pays for it


def walkers(methods: str, around: nn.Module, batches: range) -> list[Walker]:
    return [
        Walker(choice.label, choice.build(around, 10), stream_of(), batches, None)
        for choice in parse_methods(methods)
    ]


@pytest.mark.parametrize(
    ("methods", "passes"),
    [("source", 1), ("source,lame,lame:neighbours=2", 1), ("bn,source", 2), ("lame,bn,source", 2)],
)
def test_a_pass_that_several_answer_from_is_done_once(methods: str, passes: int) -> None:
    done, counted = [], rotta.load_source("digits")
    counted.register_forward_hook(lambda *_: done.append(1))  # copies have it too
    leg = range(3, 9)
    ends = walk_leg(walkers(methods, counted, leg), stream_of(), leg)
    assert list(ends) == methods.split(",")
    assert len(done) == passes * len(leg)


def test_each_is_charged_what_it_would_cost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    slow = rotta.load_source("digits")
    slow.register_forward_hook(clock.takes(0.020))
    correct = rotta.adapters.lame.laplacian_adjusted
    monkeypatch.setattr(
        "rotta.adapters.lame.laplacian_adjusted", lambda *a: (clock.takes(0.003)(), correct(*a))[1]
    )
    methods = "lame,source,lame:neighbours=2,bn"
    party = Party(parse_methods(methods), stream_of(), jobs=2)
    ends: list[Finished | Failed] = []
    for leg in party.legs:
        walked = walk_leg(walkers(methods, slow, leg.batches), stream_of(), leg.batches)
        ends += party.end(leg, walked)
    cost = {"lame": 23, "source": 20, "lame:neighbours=2": 23, "bn": 20}
    for end in ends:
        assert isinstance(end, Finished)
        assert end.result.ms_per_batch == pytest.approx(cost[end.label])
        assert end.seconds == pytest.approx(17 * cost.pop(end.label) / 1000)
    assert not cost


# What goes wrong


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("methods", ["tent,source,bn,lame", "source,lame,bn,tent"])
def test_a_method_that_raises_fails_alone(
    methods: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "tent", Raises)
    monkeypatch.setattr(Raises, "before", before)
    ends = compared(methods)
    failed = ends.pop(("tent", 0))
    assert isinstance(failed, Failed)
    assert failed.reason == "RuntimeError: out of memory"
    assert "in infer" in failed.traceback
    for (label, _), end in ends.items():
        assert timeless(end) == alone(label)


def test_a_method_that_cannot_be_built_any_more_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = compare(parse_methods("source,bn"), net(), [0], stream_of, jobs=2)

    def refuses(self: Source, *_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(Source, "__init__", refuses)
    kinds = {end.label: type(end) for end in ends}
    assert kinds == {"source": Failed, "bn": Finished}


def test_a_process_that_dies_takes_its_party_along_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "tent", Kills)
    monkeypatch.setattr(Kills, "whom", "itself")
    ends = compared("source,tent,bn,lame:bad_input=skip")
    assert timeless(ends.pop(("lame:bad_input=skip", 0))) == alone("lame")
    assert [label for label, _ in ends] == ["source", "tent", "bn"]
    for end in ends.values():
        assert isinstance(end, Failed)
        assert end.reason.startswith("its process was killed")


# Looks


def test_looks_tell_of_all_legs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotta.legs.SECONDS_PER_LOOK", 0)
    looks: list[Look] = []
    ends = compared("source,bn", look=looks.append)
    for label in ("source", "bn"):
        own = [look for look in looks if look.label == label]
        done = [look.batches for look in own]
        assert done == sorted(done)
        assert set(done) == set(range(1, 18))
        assert {(look.seed, look.total) for look in own} == {(0, 17)}
        seconds = [look.seconds for look in own]
        assert seconds == sorted(seconds)
        end = ends[label, 0]
        assert isinstance(end, Finished)
        assert seconds[-1] == pytest.approx(end.seconds)
        assert own[-1].error == pytest.approx(end.result.average_error, abs=15)


def test_nothing_is_told_about_who_has_failed() -> None:
    party = Party(parse_methods("source,bn"), stream_of(), jobs=2)
    news = LegLook(0, Look("bn", 0, 3, 17, 50.0, 1.0, speed=3.0))
    assert party.look(news, processes=1) == news.look
    more = LegLook(4, Look("bn", 0, 1, 17, 10.0, 2.0, speed=1.0))
    assert party.look(more, processes=1) == Look("bn", 0, 4, 17, 40.0, 3.0, speed=2.0)
    leg: Leg = party.legs[0]
    assert [end.label for end in party.end(leg, Lost("it was killed"))] == ["source", "bn"]
    assert party.look(news, processes=1) is None
    assert not list(party.end(party.legs[1], {"source": b"", "bn": b""}))


def by_turns(ends_first: int) -> Any:
    """Tasks one after the other in this process, as if two did them; the one named ends first."""

    def side_by_side(
        tasks: list[Any], work: Any, jobs: int, tell: Any
    ) -> Iterator[tuple[Any, Any]]:
        assert jobs == 2
        under_way, waiting = list(tasks[:2]), list(tasks[2:])
        while under_way:
            task = under_way.pop(min(ends_first, len(under_way) - 1))
            end = work(task, tell)
            under_way += [waiting.pop(0)] if waiting else []
            yield task, end

    return side_by_side


@pytest.mark.parametrize(
    ("methods", "processes"), [("bn,source,lame", 2), ("rotta,bn,source,lame", 1)]
)
def test_who_walks_in_company_is_as_fast_as_the_company(
    methods: str, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on only while somebody computes."""
    clock = Clock(monkeypatch)
    correct = rotta.adapters.lame.laplacian_adjusted
    monkeypatch.setattr(
        "rotta.adapters.lame.laplacian_adjusted",
        lambda *a: (clock.takes(0.25)(), correct(*a))[1],
    )
    monkeypatch.setattr("rotta.comparison.side_by_side", by_turns(ends_first=2 - processes))
    monkeypatch.setattr("rotta.legs.SECONDS_PER_LOOK", 0)
    slow = rotta.load_source("digits")
    slow.register_forward_hook(clock.takes(1.0))
    looks: list[Look] = []
    list(compare(parse_methods(methods), slow, [0, 3], stream_of, looks.append, jobs=2))
    seconds_per_batch = 1.0 + 1.0 + 0.25  # source and lame share a pass
    for seed in (0, 3):
        for label in ("bn", "source", "lame"):
            own = [look for look in looks if (look.label, look.seed) == (label, seed)]
            speeds = [look.speed * seconds_per_batch for look in own]
            assert speeds[0] == pytest.approx(processes)
            assert set(np.round(speeds, 6)) <= {1.0, processes}


def test_what_was_done_before_a_break_makes_nobody_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    slow, leg = rotta.load_source("digits"), range(8)
    slow.register_forward_hook(clock.takes(1.0))
    model = rotta.Source(slow, 10)
    kept = Checkpoints(tmp_path / "kept", math.inf).of("source", 0, model, "checksum", leg)
    before = Walker("source", model, stream_of(), leg, kept)
    for batch in list(stream_of())[:6]:
        before.take(batch, None)
    kept.keep(before.reached, stream_of(), before._parts)
    looks: list[LegLook] = []
    again = Walker("source", model, stream_of(), leg, kept)
    walk_leg([again], stream_of(), leg, looks.append)
    assert looks[-1].look.batches == 8
    assert [round(told.look.speed, 6) for told in looks] == [1.0] * len(looks)
    done = Walker("source", rotta.Source(slow, 10), stream_of(), leg, None)
    done.reached = 8
    walk_leg([done], stream_of(), leg, looks.append)
    assert looks[-1].look.speed == 0.0  # nobody knows
    party = Party(parse_methods("source"), stream_of(), jobs=2)
    assert party.look(looks[-1], processes=2).speed == 0.0  # type: ignore[union-attr]
    assert party.look(LegLook(8, looks[0].look), processes=2).speed == 2.0  # type: ignore[union-attr]


# Checkpoints


def die_in_the_middle(kept: Checkpoints) -> None:
    compared("source,tent,bn", checkpoints=kept)


@pytest.mark.parametrize("every", [EACH_BATCH, 60.0])
def test_a_run_that_was_killed_goes_on_with_the_legs_that_were_left(
    every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path / "kept", every)
    monkeypatch.setitem(METHODS, "tent", Kills)
    monkeypatch.setattr(Kills, "whom", "its parent")
    run = forked(die_in_the_middle, kept, daemon=False)
    run.join(60)
    assert run.exitcode == -signal.SIGKILL
    before = Noting.asked()
    assert 1 < len(before) <= 17
    names = {path.name for path in kept.folder.iterdir() if not path.name.startswith(".")}
    assert any(name.startswith("tent-") for name in names)
    monkeypatch.setattr(Kills, "whom", "nobody")
    ends = compared("source,tent,bn", checkpoints=kept)
    for label, as_alone in (("source", "source"), ("tent", "source"), ("bn", "bn")):
        assert timeless(ends[label, 0]) == alone(as_alone)
    asked = Noting.asked()
    assert len(asked) == 17
    # done again: what two processes were at when it happened, or the legs that they were on
    longest = max(len(leg) for leg in cut_into_legs(17, jobs=2))
    assert sum(asked.values()) - 17 <= 2 * (1 if every == EACH_BATCH else longest)
    assert not kept.folder.exists()


def test_who_failed_goes_on_without_those_who_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path / "kept")
    monkeypatch.setitem(METHODS, "tent", Kills)
    monkeypatch.setattr(Kills, "whom", "itself")
    assert {type(end) for end in compared("tent,bn", checkpoints=kept).values()} == {Failed}
    monkeypatch.setattr(Kills, "whom", "nobody")
    ends = compared("tent,bn", checkpoints=kept, finished=[("bn", 0)])
    assert timeless(ends.pop(("tent", 0))) == alone("source")
    assert not ends
    again = [times - 1 for times in Noting.asked().values() if times > 1]
    assert 1 <= len(again) <= max(len(leg) for leg in cut_into_legs(17, jobs=2))
    assert not kept.folder.exists()


def test_legs_that_were_cut_otherwise_are_nobodys_and_go_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path / "kept")
    monkeypatch.setitem(METHODS, "tent", Kills)
    monkeypatch.setattr(Kills, "whom", "itself")
    compared("tent", (0, 10), checkpoints=kept)
    of_seed_ten = {path for path in kept.folder.iterdir() if "-seed10-" in path.name}
    assert not of_seed_ten  # that one came to its end
    (one, *_) = sorted(kept.folder.iterdir())
    (kept.folder / f".{one.name}.0123.safetensors").write_text("half writt")
    Noting.file.unlink()
    monkeypatch.setattr(Kills, "whom", "nobody")
    ends = compared("tent", jobs=5, checkpoints=kept)
    assert timeless(ends["tent", 0]) == alone("source")
    assert list(Noting.asked().values()) == ALL_ONCE
    assert not kept.folder.exists()


def test_the_checkpoint_of_another_leg_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(tmp_path / "kept")
    model = rotta.Source(net(), 10)
    leg, other = range(0, 4), range(4, 8)
    own = kept.of("source", 0, model, "checksum", leg)
    walk_leg([Walker("source", model, stream_of(), leg, own)], stream_of(), leg)
    own.path.rename(kept.of("source", 0, model, "checksum", other).path)
    theirs = kept.of("source", 0, model, "checksum", other)
    with pytest.raises(ValueError, match="another walk, with another stream"):
        Walker("source", model, stream_of(), other, theirs)


def test_where_no_checkpoints_are_wanted_legs_keep_none(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "kept", math.inf)
    ends = compare(parse_methods(TOGETHER), net(), [0], stream_of, jobs=2, checkpoints=kept)
    next(ends)
    assert not kept.folder.exists()
    assert len(list(ends)) == 3


def test_checkpoints_go_when_a_result_is_safe(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "kept")
    ends = compare(parse_methods("source,bn"), net(), [0], stream_of, jobs=2, checkpoints=kept)
    assert next(ends).label == "source"
    assert any(path.name.startswith("source-") for path in kept.folder.iterdir())
    assert next(ends).label == "bn"
    assert not any(path.name.startswith("source-") for path in kept.folder.iterdir())
    assert not list(ends)
    assert not kept.folder.exists()


def test_the_folder_stays_as_long_as_another_process_may_write_there(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "kept")
    model = rotta.Source(net(), 10)
    own = kept.of("source", 0, model, "checksum", range(4))
    walk_leg([Walker("source", model, stream_of(), range(4), own)], stream_of(), range(4))
    kept.remove("source", 0)
    assert not list(kept.folder.iterdir())  # but there it is
    kept.remove_folder()
    assert not kept.folder.exists()
    kept.remove_folder()


def test_where_all_have_failed_nothing_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(Source, "infer", lambda *_: 1 / 0)
    stream = stream_of(prefetch=0)
    whole = stream.starting_at

    def counted(number: int) -> Iterator[rotta.Batch]:
        for batch in whole(number):
            read.append(batch.number)
            yield batch

    monkeypatch.setattr(stream, "starting_at", counted)
    end = walk_leg(
        [Walker("source", rotta.Source(net(), 10), stream, range(8), None)], stream, range(8)
    )
    assert isinstance(end["source"], Failed)
    assert read == [0, 1]
