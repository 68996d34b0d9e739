"""A walk or a run that was broken off goes on, and nobody can tell from its results."""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner, Result

sys.path.append(str(Path(__file__).parent / "adapters"))

from small_methods import fingerprint

import rotta
from rotta.adapters import METHODS, Source
from rotta.adapters.choice import parse_methods
from rotta.checkpoint import Checkpoint, Checkpoints
from rotta.cli import app, performing
from rotta.cli.run_folder import claim, held, write_first
from rotta.cli.run_request import Begun
from rotta.comparison import Failed, Finished, Look, compare
from rotta.datasets.base import Dataset
from rotta.metrics import VisitErrors
from rotta.nn import native
from rotta.results import Result as RunResult
from rotta.results import SeedResult
from rotta.state_file import read_state, write_state
from rotta.walk import walk

EACH_BATCH = 1e-9
SMALL = "rotta:update_every=8:capacity=8"
SMALL_METHODS = {
    "rotta": SMALL,
    "note": "note:update_every=8:capacity=8",
    "cotta": "cotta:passes=2",
}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_COMMIT", "this one")  # somebody may commit meanwhile
    monkeypatch.chdir(tmp_path)


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=20)


def stream_of(seed: int = 0, **options: Any) -> rotta.Stream:
    options = {"order": ("fog", "snow"), "batch_size": 6, "visits": 2, **options}
    return rotta.Stream(digits(), seed=seed, **options)


def built(name: str, seed: int = 0) -> rotta.Adapter:
    (choice,) = parse_methods(SMALL_METHODS.get(name, name))
    return choice.build(rotta.load_source("digits"), 10, seed=seed)


def timeless(result: SeedResult) -> SeedResult:
    return replace(result, ms_per_batch=0.0)


class Broken(Exception):
    pass


class BreaksOff:
    """Lets a method work for some batches."""

    def __init__(self, method: rotta.Adapter, batches: int) -> None:
        self._method, self._left = method, batches
        self.bank, self.reset = method.bank, method.reset

    def __call__(self, x: Tensor) -> Tensor:
        if self._left == 0:
            raise Broken
        self._left -= 1
        logits: Tensor = self._method(x)
        return logits


# One walk


@pytest.mark.parametrize(
    ("name", "setting"), [*((name, "ptta") for name in METHODS), ("rotta", "fully")]
)
def test_a_walk_that_breaks_off_goes_on(name: str, setting: str, tmp_path: Path) -> None:
    """Twice, in the middle of windows and, where there are any, of episodes."""
    stream = stream_of(setting=setting)
    straight = walk(built(name), stream)
    path = tmp_path / "walk.safetensors"
    for batches in (5, 4):
        model = built(name)
        with pytest.raises(Broken):
            walk(BreaksOff(model, batches), stream, checkpoint=Checkpoint(path, model, EACH_BATCH))
    model = built(name)
    looks: list[int] = []
    checkpoint = Checkpoint(path, model, every=math.inf)
    resumed = walk(model, stream, lambda done, _: looks.append(done), checkpoint)
    assert looks[0] == 10
    assert timeless(resumed) == timeless(straight)
    assert len(resumed.per_visit) == 2
    checkpoint.remove()
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "cache"])


def test_without_a_moment_to_lose_there_is_no_checkpoint(tmp_path: Path) -> None:
    model = built("bn")
    path = tmp_path / "walk.safetensors"
    walk(model, stream_of(), checkpoint=Checkpoint(path, model))  # 60 s are long
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "another stream"),
        ({"batch_size": 5}, "another stream"),
        ({"arrival": "burst"}, "another stream"),
        ({"method": "bn"}, "the same method with the same options"),
        ({"net": "other"}, "another network"),
    ],
)
def test_the_checkpoint_of_another_walk_is_refused(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "walk.safetensors"
    model = built("tent")
    with pytest.raises(Broken):
        walk(BreaksOff(model, 3), stream_of(), checkpoint=Checkpoint(path, model, EACH_BATCH))
    model = built(change.pop("method", "tent"))
    if change.pop("net", None):
        net = rotta.load_source("digits")
        torch.nn.init.zeros_(net.head.bias)
        model = rotta.TENT(net, 10)
    with pytest.raises(ValueError, match=f"is the checkpoint of another walk.*{message}.*remove"):
        walk(model, stream_of(**change), checkpoint=Checkpoint(path, model))


def test_the_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "walk.safetensors"
    model = built("tent")
    with pytest.raises(Broken):
        walk(BreaksOff(model, 3), stream_of(), checkpoint=Checkpoint(path, model, EACH_BATCH))
    kept = read_state(path, "checkpoint of a walk")
    del kept["parts"]["notes"]["incidents"]  # which there were none of once
    write_state(path, "checkpoint of a walk", kept)
    with pytest.raises(
        ValueError, match=r"another version of rotta.*'incidents'.*: remove this one file"
    ):
        walk(built("tent"), stream_of(), checkpoint=Checkpoint(path, built("tent")))


def kept_of_three_batches(path: Path) -> Any:
    model = built("tent")
    with pytest.raises(Broken):
        walk(BreaksOff(model, 3), stream_of(), checkpoint=Checkpoint(path, model, EACH_BATCH))
    return read_state(path, "checkpoint of a walk")


ODD: dict[str, Any] = {
    "nothing": lambda kept: kept.clear(),
    "no network": lambda kept: kept.pop("network"),
    "no method": lambda kept: kept.pop("method"),
    "no batches": lambda kept: kept.pop("batches"),
    "batches in words": lambda kept: kept.update(batches="three"),
    "batches before the first": lambda kept: kept.update(batches=-1),
    "batches beyond the last": lambda kept: kept.update(batches=10**9),
    "a stream in words": lambda kept: kept.update(stream="fog"),
    "a row of arrivals": lambda kept: kept["stream"].update(arrival=["steady"]),
    "tensors for a stream": lambda kept: kept["stream"].update(seed=torch.ones(2)),
    "no parts": lambda kept: kept.update(parts=None),
    "a word for notes": lambda kept: kept["parts"].update(notes="x"),
    "one count for all": lambda kept: kept["parts"]["notes"]["per_class"].update(
        seen=torch.tensor(3)
    ),
    "windows in words": lambda kept: kept["parts"]["notes"]["course"].update(sizes=["six"] * 3),
    "too few windows": lambda kept: kept["parts"]["notes"]["course"].update(sizes=[6]),
    "an empty window": lambda kept: kept["parts"]["notes"]["course"].update(sizes=[6, 0, 6]),
    "a list of times": lambda kept: kept["parts"]["stopwatch"].update(milliseconds=[1.0]),
    "half a note of the bank": lambda kept: kept["parts"]["notes"]["bank"].update(samples=[6]),
    "an event in words": lambda kept: kept["parts"]["notes"]["incidents"].update(events=["reset"]),
    "skipped in words": lambda kept: kept["parts"]["notes"]["incidents"].update(
        skipped={"range": "two"}
    ),
}


@pytest.mark.parametrize("change", ODD)
def test_an_odd_checkpoint_is_refused_before_the_method_changes(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "walk.safetensors"
    kept = kept_of_three_batches(path)
    ODD[change](kept)
    write_state(path, "checkpoint of a walk", kept)
    model = built("tent")
    before = fingerprint(model.state_dict())
    remedy = "remove this one file, and resume again: its walk begins anew, all others go on"
    with pytest.raises(ValueError, match=remedy):
        walk(model, stream_of(), checkpoint=Checkpoint(path, model))
    assert fingerprint(model.state_dict()) == before
    path.unlink()
    assert walk(model, stream_of(), checkpoint=Checkpoint(path, model))


@pytest.mark.parametrize("data", [b"", b"{}", b"damaged"])
def test_a_damaged_checkpoint_need_only_be_removed(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "tent", Fails)
    monkeypatch.setitem(METHODS, "pl", Fails)
    words = (*WORDS, "--methods", "pl,tent", "--jobs", "1", "--checkpoint-every", "1e-9")
    assert command(*words, "--out", "run").exit_code == 1
    monkeypatch.setattr(Fails, "does", False)
    first, second = sorted(Path("run/checkpoints").iterdir())
    if data == b"damaged":
        whole = first.read_bytes()
        data = whole[:-1] + bytes([whole[-1] ^ 1])
    first.write_bytes(data)
    message = refusal("--resume", "run")
    assert message.startswith(str(first))
    assert message.endswith(
        ": remove this one file, and resume again: its walk begins anew, all others go on"
    )
    first.unlink()
    assert second.exists()
    assert command("run", "--resume", "run").exit_code == 0
    assert command(*words, "--out", "straight").exit_code == 0
    assert without_times("run") == without_times("straight")


def test_errors_per_visit_beside_the_obvious() -> None:
    stream, net = stream_of(visits=3), rotta.load_source("digits").eval()
    errors = VisitErrors(3, 2)
    wrong: dict[tuple[int, int], list[bool]] = {}
    for step in rotta.evaluate(net, stream):
        errors.add(step.batch.visit, step.batch.domain, step.wrong)
        places = zip(step.batch.visit.tolist(), step.batch.domain.tolist(), strict=True)
        for place, is_wrong in zip(places, step.wrong.tolist(), strict=True):
            wrong.setdefault(place, []).append(is_wrong)
    expected = [
        sum(100 * sum(wrong[visit, domain]) / len(wrong[visit, domain]) for domain in (0, 1)) / 2
        for visit in range(3)
    ]
    assert errors.percent() == pytest.approx(expected)
    assert walk(net, stream).per_visit == errors.percent()


# A comparison


class Fails(Source):
    """Raises at the fourth batch, if it shall."""

    does = True
    batches = 0

    def infer(self, x: Tensor) -> Tensor:
        self.batches += 1
        if self.does and self.batches == 4:
            raise RuntimeError("out of memory")
        return super().infer(x)


def test_finished_walks_are_left_out_and_failed_ones_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "tent", Fails)
    net = rotta.load_source("digits")
    kept = Checkpoints(tmp_path / "kept", EACH_BATCH)

    def compared(**options: Any) -> Iterator[Finished | Failed]:
        return compare(parse_methods("bn,tent"), net, [0], stream_of, checkpoints=kept, **options)

    first, second = compared()
    assert isinstance(first, Finished)
    assert isinstance(second, Failed)
    (left,) = kept.folder.iterdir()  # that of the failed one
    assert left.name.startswith("tent-")
    monkeypatch.setattr(Fails, "does", False)
    (end,) = compared(finished=[("bn", 0)])
    assert isinstance(end, Finished)
    (straight,) = compare(parse_methods("tent"), net, [0], stream_of)
    assert isinstance(straight, Finished)
    assert timeless(end.result) == timeless(straight.result)
    assert not kept.folder.exists()


def test_what_was_done_before_the_break_makes_no_walk_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def takes_two_seconds(*_: object) -> None:
        nonlocal now
        now += 2.0

    monkeypatch.setitem(METHODS, "tent", Fails)
    net, tent = rotta.load_source("digits"), parse_methods("tent")
    kept = Checkpoints(tmp_path / "kept", EACH_BATCH)
    list(compare(tent, net, [0], stream_of, checkpoints=kept))
    monkeypatch.setattr(Fails, "does", False)
    monkeypatch.setattr("rotta.walk.SECONDS_PER_LOOK", 0)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    net.register_forward_hook(takes_two_seconds)
    looks: list[Look] = []
    list(compare(tent, net, [0], stream_of, looks.append, checkpoints=kept))
    assert looks[0].batches == 4
    assert {look.speed for look in looks} == {0.5}


# The command


WORDS = ("run", "--limit", "20", "--order", "fog,snow", "--batch-size", "6", "--device", "cpu")


def command(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def without_times(folder: Path | str) -> Any:
    stored = json.loads((Path(folder) / "result.json").read_text())
    for method in stored["methods"].values():
        for scored in (method, *method["seeds"].values()):
            scored["ms_per_batch"] = 0.0
    stored["provenance"].pop("time")
    return stored


class Stops(BaseException):
    """As if somebody had pulled the plug."""


class PullsThePlug(rotta.RoTTA):
    """RoTTA that ends everything after some batches."""

    left = 0

    def infer(self, x: Tensor) -> Tensor:
        type(self).left -= 1
        if self.left == 0:
            raise Stops
        return super().infer(x)


def test_a_run_goes_on_where_it_was_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*WORDS, "--methods", f"bn,{SMALL}", "--seeds", "3,1", "--jobs", "1")
    assert command(*words, "--out", "straight").exit_code == 0
    kind = METHODS["rotta"]
    PullsThePlug.__name__ = kind.__name__
    for batches in (4, 3):
        monkeypatch.setitem(METHODS, "rotta", PullsThePlug)
        monkeypatch.setattr(PullsThePlug, "left", batches)
        again = (
            ("run", "--resume", "broken")
            if Path("broken").exists()
            else (*words, "--out", "broken")
        )
        with pytest.raises(Stops):
            CliRunner().invoke(app, [*again, "--checkpoint-every", "1e-9"], catch_exceptions=False)
        assert len(list(Path("broken/checkpoints").iterdir())) == 1
    monkeypatch.setitem(METHODS, "rotta", kind)
    done = command("run", "--resume", "broken")
    assert done.exit_code == 0, done.output
    assert without_times("broken") == without_times("straight")
    assert "bn, seed 3" not in done.stderr  # it was finished
    assert sorted(p.name for p in Path("broken").iterdir()) == sorted(
        p.name for p in Path("straight").iterdir()
    )


def refusal(*words: str) -> str:
    refused = command("run", *words)
    assert isinstance(refused.exception, ValueError), refused.output
    return str(refused.exception)


def test_beside_resume_nothing_is_said_about_the_run() -> None:
    for option in (["--seed", "1"], ["--batch-size", "64"], ["--methods", "bn"], ["--out", "x"]):
        message = f"leave out {option[0]}, or start a new run"
        assert message in refusal("--resume", "anything", *option)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "--resume takes the folder of a run" in refusal("--resume", "nowhere")
    Path("torn").mkdir()
    for text in ("", "{", "[]", '{"format": 1, "request": {}}', '{"format": 2, "request": {}}'):
        Path("torn/run.json").write_text(text)
        message = refusal("--resume", "torn")
        assert "is damaged" in message or "another version of rotta" in message


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (("provenance", "data"), None),
        (("provenance", "versions"), 3),
        (("request", "batch_size"), "64"),
        (("request", "setting"), ["ptta"]),
        (("request", "seeds"), 0),
        (("request", "seeds"), []),
        (("request", "seeds"), [0.5]),
        (("request", "threads"), True),
        (("request", "threads"), 0),
        (("request", "threads"), -1),
        (("request", "threads"), 2**31),
        (("request", "jobs"), 0),
        (("request", "limit"), "all"),
    ],
)
def test_a_run_that_says_nonsense_is_refused(where: tuple[str, str], what: object) -> None:
    assert command(*WORDS, "--methods", "source", "--out", "run").exit_code == 0
    text = Path("run/run.json").read_text()
    assert Begun.read(Path("run"))
    stored = json.loads(text)
    part, name = where
    stored[part][name] = what
    Path("run/run.json").write_text(json.dumps(stored))
    assert "run.json is damaged" in refusal("--resume", "run")


def written_anew(begun: Begun) -> None:
    Path("run/run.json").unlink()
    begun.write(Path("run"))


def test_a_run_whose_ground_has_moved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", Fails)
    assert command(*WORDS, "--methods", "tent", "--delta", "inf", "--out", "run").exit_code == 1
    begun = Begun.read(Path("run"))
    assert begun.request.delta == math.inf
    versions, data, weights = begun.provenance["versions"], begun.provenance["data"], begun.weights
    kernels = begun.provenance["cpu kernels"]
    assert kernels == native.level()
    begun.check_unchanged(versions, kernels, data, weights)
    of_before = {name: value for name, value in begun.provenance.items() if name != "cpu kernels"}
    older = replace(begun, provenance=of_before)  # by PyTorch's kernels: there were no others
    older.check_unchanged(versions, "none", data, weights)
    with pytest.raises(ValueError, match="begun with normalisation kernels none"):
        older.check_unchanged(versions, "x86-64-v4", data, weights)
    with pytest.raises(ValueError, match="begun with torch"):
        begun.check_unchanged({**versions, "torch": "1.0"}, kernels, data, weights)
    with pytest.raises(ValueError, match=f"begun with normalisation kernels {kernels}"):
        begun.check_unchanged(versions, "of another kind", data, weights)
    with pytest.raises(ValueError, match="dataset is not what it was"):
        begun.check_unchanged(versions, kernels, {}, weights)
    with pytest.raises(ValueError, match="has not the weights"):
        begun.check_unchanged(versions, kernels, data, "")
    written_anew(replace(begun, weights=""))
    assert "has not the weights" in refusal("--resume", "run")
    written_anew(replace(begun, request=replace(begun.request, batch_size=7)))
    assert "is the result of another run" in refusal("--resume", "run")


@pytest.mark.parametrize("length", [200, 9])
def test_a_run_goes_on_that_states_what_meant_nothing_to_its_arrival(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As runs did before that was refused."""
    monkeypatch.setitem(METHODS, "tent", Fails)
    words = (*WORDS, "--methods", "bn,tent", "--jobs", "1")
    assert command(*words, "--out", "run", "--checkpoint-every", "1e-9").exit_code == 1
    of_before = {"length": length, "imbalance": 100.0}
    for file, part in (("run.json", "request"), ("result.json", "config")):
        stored = json.loads(Path("run", file).read_text())
        stored[part] |= of_before
        Path("run", file).write_text(json.dumps(stored))
    (path,) = Path("run/checkpoints").iterdir()
    kept = read_state(path, "checkpoint of a walk")
    kept["stream"] |= of_before
    write_state(path, "checkpoint of a walk", kept)
    monkeypatch.setattr(Fails, "does", False)
    assert command("run", "--resume", "run").exit_code == 0
    assert command(*words, "--out", "straight").exit_code == 0
    resumed, straight = without_times("run"), without_times("straight")
    assert resumed["methods"] == straight["methods"]


@pytest.mark.parametrize("arrival", ["burst", "steady"])
def test_a_length_is_refused_or_remembered(arrival: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", Fails)
    words = (*WORDS[1:], "--methods", "bn,tent", "--arrival", arrival, "--length", "9")
    if arrival == "steady":
        assert "length means nothing to arrival steady" in refusal(*words)
        assert not Path("runs").exists()
        return
    assert command("run", *words, "--out", "run").exit_code == 1
    monkeypatch.setattr(Fails, "does", False)
    assert command("run", "--resume", "run").exit_code == 0
    assert without_times("run")["config"]["length"] == 9


def test_no_checkpoints_where_none_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", Fails)
    for every, kept in (("0", False), ("1e-9", True)):
        command(*WORDS, "--methods", "tent", "--checkpoint-every", every, "--out", every)
        assert (Path(every) / "checkpoints").exists() is kept


def test_a_complete_run_answers_so_unless_another_works_on_it() -> None:
    words = (*WORDS, "--methods", "bn", "--visits", "2", "--out", "done")
    assert command(*words).exit_code == 0
    path = Path("done/result.json")
    before = path.read_bytes()
    again = command("run", "--resume", "done")
    assert (again.exit_code, again.stdout) == (0, "done is complete: see done/report.html\n")
    assert path.read_bytes() == before
    Path("done/report.html").unlink()  # killed before it was written
    assert "page to look at" in command("run", "--resume", "done").stdout
    assert Path("done/report.html").exists()
    with held(Path("done")):
        assert "another process is working on done" in refusal("--resume", "done")
    stored = json.loads(before)
    assert len(stored["methods"]["bn"]["seeds"]["0"].pop("per_visit")) == 2
    path.write_text(json.dumps(stored))  # as it was before there were any
    assert RunResult.load(path).methods["bn"].seeds["0"].per_visit == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_of_two_runs_that_begin_in_one_folder_one_is_refused(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after it has found the folder vacant, another one begins there."""

    def claimed(*words: Any) -> Path:
        monkeypatch.setattr(performing, "claim", claim)
        if moment == "before":
            assert command(*WORDS, "--methods", "bn", "--out", "run").exit_code == 0
        folder = claim(*words)
        assert command(*WORDS, "--methods", "bn", "--out", "run").exit_code == 0
        return folder

    monkeypatch.setattr(performing, "claim", claimed)
    message = refusal(*WORDS[1:], "--methods", "source", "--out", "run")
    assert "give --out another name" in message
    assert list(without_times("run")["methods"]) == ["bn"]
    assert Begun.read(Path("run")).request.methods == "bn"


def test_of_many_that_write_their_request_at_once_one_does(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> int | None:
        barrier.wait()
        try:
            write_first(tmp_path, str(number))
        except ValueError:
            return None
        return number

    with ThreadPoolExecutor(8) as several:
        (first,) = [number for number in several.map(write, range(8)) if number is not None]
    assert (tmp_path / "run.json").read_text() == str(first)


def test_a_request_that_could_not_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="full"):
            write_first(tmp_path, "mine")
    write_first(tmp_path, "mine")
