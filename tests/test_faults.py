"""Killed, out of room, two at once, and files that somebody damaged: nothing is lost or changed."""

import copy
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from forking import forked, forks

sys.path.append(str(Path(__file__).parent / "adapters"))

from small_methods import (
    fingerprint,
    images,
    make,
    same,
    small_net,
    stream,
    tiny_net,
    usual,
    walk,
)

import rotta
from rotta.adapters import METHODS
from rotta.checkpoint import Checkpoint
from rotta.cli import app
from rotta.datasets.base import Dataset
from rotta.state_file import read_state, write_state
from rotta.walk import walk as walk_along

EACH_BATCH = 1e-9


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_COMMIT", "this one")  # somebody may commit meanwhile


@cache
def digits() -> Dataset:
    return rotta.load_dataset("digits-c", limit=30)


def digit_stream() -> rotta.Stream:
    return rotta.Stream(digits(), order=("fog", "snow"), batch_size=5)


# Killed


class WritesDown:
    """A method whose every answer goes to a file that is named after the question."""

    def __init__(self, method: rotta.Adapter, folder: Path) -> None:
        self._method, self._folder = method, folder
        self.bank = method.bank

    def __call__(self, x: Tensor) -> Tensor:
        logits: Tensor = self._method(x)
        name = sha256(x.numpy().tobytes()).hexdigest()[:16]
        (self._folder / name).write_bytes(logits.numpy().tobytes())
        return logits


def walk_to_the_end(name: str, folder: Path) -> None:
    """Go on from the checkpoint; write down answers and the result."""
    torch.set_num_threads(1)
    options = {"update_every": 8, "capacity": 8} if name in ("note", "rotta") else {}
    options |= {"passes": 2} if name == "cotta" else {}
    model = rotta.adapt(rotta.load_source("digits"), name, **options)
    checkpoint = Checkpoint(folder / "walk.safetensors", model, EACH_BATCH)
    result = walk_along(WritesDown(model, folder / "answers"), digit_stream(), None, checkpoint)
    (folder / "result").write_text(repr(replace(result, ms_per_batch=0.0)))


def brought(folder: Path) -> dict[str, bytes]:
    answers = {path.name: path.read_bytes() for path in (folder / "answers").iterdir()}
    return {**answers, "result": (folder / "result").read_bytes()}


def straight(name: str, folder: Path) -> tuple[dict[str, bytes], float]:
    """What a walk brings that nobody disturbs, and how many seconds it takes."""
    (folder / "answers").mkdir(parents=True)
    # or every process would do it anew: make the images, import what PyTorch imports late
    list(digit_stream())
    walk(make(name), stream()[:3])
    begun = time.monotonic()
    process = forked(walk_to_the_end, name, folder)
    process.join()
    assert process.exitcode == 0
    return brought(folder), time.monotonic() - begun


def killed_at_random(name: str, kills: int, tmp_path: Path) -> None:
    """Walk, be killed, go on, until so many kills are survived; finished walks begin anew."""
    expected, seconds = straight(name, tmp_path / "straight")
    rng, walks = random.Random(0), 0
    while kills > 0:
        walks += 1
        folder = tmp_path / f"walk{walks}"
        (folder / "answers").mkdir(parents=True)
        while True:
            process = forked(walk_to_the_end, name, folder)
            process.join(rng.uniform(0, seconds) if kills > 0 else None)
            if process.exitcode == 0:
                break
            assert process.exitcode is None, "it was killed by nobody, and yet it ended"
            process.kill()
            process.join()
            kills -= 1
        assert brought(folder) == expected


@forks
@pytest.mark.parametrize("name", ["rotta", "tent"])
def test_a_walk_survives_kills(name: str, tmp_path: Path) -> None:
    killed_at_random(name, 4, tmp_path)


@forks
@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_survives_fifty_kills(name: str, tmp_path: Path) -> None:
    killed_at_random(name, 50, tmp_path)


def run_command(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rotta", "run", *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # at its end, all that belongs to the command is gone
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def stored_result(folder: Path) -> Any:
    stored = json.loads((folder / "result.json").read_text())
    for method in stored["methods"].values():
        for scored in (method, *method["seeds"].values()):
            scored["ms_per_batch"] = 0.0
    stored["provenance"].pop("time")
    return stored


def checkpoints(run: Path) -> set[tuple[Path, int]]:
    """Those of a run, each with its time; they come and go."""
    with suppress(FileNotFoundError):
        return {(file, file.stat().st_mtime_ns) for file in run.glob("checkpoints/*.safetensors")}
    return set()


def killed_runs(jobs: str, kills: int, tmp_path: Path) -> None:
    """The command, killed with all that belongs to it soon after it has got somewhere."""
    words = ["--methods", "rotta:update_every=8:capacity=8,note,lame", "--limit", "30"]
    words += ["--visits", str(2 * kills)]
    words += ["--order", "fog,snow", "--batch-size", "5", "--device", "cpu", "--jobs", jobs]
    out = str(tmp_path / "straight")
    assert CliRunner().invoke(app, ["run", *words, "--out", out]).exit_code == 0
    rng, ends = random.Random(1), []
    words += ["--out", "killed"]
    for _ in range(kills):
        known = checkpoints(tmp_path / "killed")
        running = run_command(tmp_path, *words, "--checkpoint-every", "1e-9")
        while running.poll() is None and not checkpoints(tmp_path / "killed") - known:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        ends.append(running.returncode)
        words = ["--resume", "killed"]
    assert ends == [-signal.SIGKILL] * kills  # it was under way each time
    resumed = CliRunner().invoke(app, ["run", "--resume", str(tmp_path / "killed")])
    assert resumed.exit_code == 0, resumed.output
    assert stored_result(tmp_path / "killed") == stored_result(tmp_path / "straight")
    assert not (tmp_path / "killed" / "checkpoints").exists()


@forks
def test_a_run_survives_a_kill(tmp_path: Path) -> None:
    killed_runs("2", 1, tmp_path)


@forks
@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_run_survives_many_kills(jobs: str, tmp_path: Path) -> None:
    killed_runs(jobs, 5, tmp_path)


# Out of room


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Within, the system refuses to write more into a file, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 100, 50_000])
def test_out_of_room_the_old_file_stays(size: int, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    model = make("rotta")
    walk(model, stream()[:3])
    rotta.save(model, file)
    assert file.stat().st_size > 50_000
    old = file.read_bytes()
    walk(model, stream()[3:5])
    before = fingerprint(model.state_dict())
    with room_for(size), pytest.raises(OSError, match=r"could not be saved .* make room there"):
        rotta.save(model, file)
    assert file.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert fingerprint(model.state_dict()) == before
    assert same(walk(model, stream()[5:]), usual("rotta")[5:])


def test_a_walk_without_room_says_so_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    path = tmp_path / "walk.safetensors"

    def led() -> str:
        model = rotta.adapt(rotta.load_source("digits"), "tent")
        checkpoint = Checkpoint(path, model, EACH_BATCH)
        result = walk_along(model, digit_stream(), None, checkpoint)
        return repr(replace(result, ms_per_batch=0.0))

    digit_stream()  # its images may have to be made, for which there must be room
    expected = led()
    size = path.stat().st_size
    path.unlink()
    with room_for(size - 1), pytest.raises(OSError, match="make room there"):
        led()  # files grow as times are noted: the last ones do not fit
    assert path.exists()
    assert led() == expected


# Two at once


def save_often(name: str, path: Path, times: int) -> None:
    model = make(name)
    for _ in range(times):
        rotta.save(model, path)


@forks
def test_two_that_write_one_file_leave_one_of_the_two(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    names = ("tent", "note")
    states = {fingerprint(make(name).state_dict()) for name in names}
    save_often(names[0], path, 1)
    writers = [forked(save_often, name, path, 40) for name in names]
    loaded = set()
    while any(writer.is_alive() for writer in writers):
        loaded.add(fingerprint(rotta.load(path, small_net()).state_dict()))
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert loaded == states
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# Damaged


def damaged(rng: random.Random, whole: bytes, other: bytes) -> bytes:
    """One of many damages; the header is hit as often as all the rest."""
    header = 8 + int.from_bytes(whole[:8], "little")
    other_header = 8 + int.from_bytes(other[:8], "little")
    at = rng.randrange(rng.choice((8, header, len(whole))))
    length = rng.choice((1, 8, 512, 4096))
    kinds: list[Callable[[], bytes]] = [
        lambda: whole[:at],
        lambda: whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :],
        lambda: whole[:at] + rng.randbytes(length) + whole[at + length :],
        lambda: whole[:at] + bytes(length) + whole[at + length :],
        lambda: whole[:at] + whole[at + length :],
        lambda: whole[:at] + rng.randbytes(length) + whole[at:],
        lambda: whole[:at] + other[at:],
        lambda: other[:other_header] + whole[header:],
        lambda: whole[:header] + other[other_header:],
        lambda: whole + rng.randbytes(length),
        lambda: rng.randbytes(at),
        lambda: len(whole[8:]).to_bytes(8, "little") + whole[8:],
        lambda: rng.randbytes(8) + whole[8:],
    ]
    return rng.choice(kinds)()


def fuzzed(files: int, tmp_path: Path) -> None:
    """Damaged files for `load` and for walks, in turns."""
    model = make("rotta")
    walk(model, stream()[:3])
    rotta.save(model, tmp_path / "a")
    walk(model, stream()[3:5])
    rotta.save(model, tmp_path / "b")
    walker = rotta.adapt(rotta.load_source("digits"), "tent")
    for name, batches in (("c", 3), ("d", 5)):
        Checkpoint(tmp_path / name, walker, 0).keep(batches, digit_stream(), {})
    net = small_net()
    states = [net, walker]
    before = [fingerprint(state.state_dict()) for state in states]
    names = {"a": "b", "b": "a", "c": "d", "d": "c"}
    whole = {name: (tmp_path / name).read_bytes() for name in names}
    checkpoint = Checkpoint(tmp_path / "fuzzed", walker)
    rng, along = random.Random(0), digit_stream()
    for number in range(files):
        name = rng.choice("abcd")
        data = damaged(rng, whole[name], whole[rng.choice((names[name], *"abcd"))])
        if data in whole.values():
            continue
        checkpoint.path.write_bytes(data)
        with pytest.raises(ValueError, match=r": (use|give|update|remove) "):
            rotta.load(checkpoint.path, net) if name in "ab" else checkpoint.resume(along, {})
        if number % 50 == 0:
            assert [fingerprint(state.state_dict()) for state in states] == before
    assert [fingerprint(state.state_dict()) for state in states] == before


def spots(content: Any) -> list[tuple[Any, Any]]:
    """Every place in a nested content: what holds it, and under which key."""
    if isinstance(content, dict):
        keys: list[Any] = list(content)
    elif isinstance(content, list):
        keys = list(range(len(content)))
    else:
        return []
    inside = [spot for key in keys for spot in spots(content[key])]
    return [(content, key) for key in keys] + inside


def crafted(rng: random.Random, content: Any) -> None:
    """Change one thing in a content, as somebody might who then counts the checksum anew."""
    holder, key = rng.choice(spots(content))
    value = holder[key]
    odd: tuple[Any, ...] = (
        None,
        True,
        -1,
        0,
        2**40,
        10**40,
        1.5,
        math.nan,
        math.inf,
        "x",
        [],
        [1],
        (1, 2, 3),
        {},
    )
    others: list[Any] = [rng.choice(odd)]
    if isinstance(value, Tensor):
        others += [value[:0] if value.ndim else value[None], value.flatten(), value[None], -value]
        others += [value.to(rng.choice((torch.float64, torch.int64, torch.uint8, torch.bool)))]
        others += [torch.full_like(value, 100), value.new_zeros(1)]
    holder[key] = rng.choice(others)
    if rng.random() < 0.1:
        del holder[key]


def crafted_files(files: int, tmp_path: Path) -> None:
    """Either refused, or what was loaded goes on without any error but for the user."""
    path, rng, contents = tmp_path / "crafted", random.Random(0), []
    for name in ("tent", "note", "rotta", "rotta-lasting"):
        model = make(name, tiny_net(), guard=True, bad_input="skip", reset_every=97)
        walk(model, [images(7, seed, side=8) for seed in range(28)])
        rotta.save(model, path)
        contents.append(read_state(path, "method"))
    net, refused = tiny_net(), 0
    before = fingerprint(net.state_dict())
    for _ in range(files):
        content = copy.deepcopy(rng.choice(contents))
        crafted(rng, content)
        write_state(path, "method", content)
        try:
            loaded = rotta.load(path, net)
        except ValueError:
            refused += 1
            continue
        with suppress(ValueError):  # of images of another shape, say
            walk(loaded, [images(7, seed, side=8) for seed in range(3)])
    assert fingerprint(net.state_dict()) == before
    assert files / 2 < refused < files


def test_crafted_files_are_refused_or_fit(tmp_path: Path) -> None:
    crafted_files(300, tmp_path)


class Enough(Exception):
    pass


def crafted_checkpoints(files: int, tmp_path: Path) -> None:
    """Either refused before the method changes, or the walk goes on to its end."""
    path, rng, along = tmp_path / "crafted", random.Random(0), digit_stream()
    net = rotta.load_source("digits")
    options: dict[str, Any] = {"capacity": 8, "update_every": 8, "guard": True, "bad_input": "skip"}
    model = rotta.adapt(net, "rotta", **options)

    def stop(done: int, _: float) -> None:
        if done == 5:
            raise Enough

    with pytest.MonkeyPatch.context() as often, suppress(Enough):
        often.setattr("rotta.walk.SECONDS_PER_LOOK", 0)
        walk_along(model, along, stop, Checkpoint(path, model, EACH_BATCH))
    whole, refused = read_state(path, "checkpoint of a walk"), 0
    assert whole["batches"] == 4
    for _ in range(files):
        content = copy.deepcopy(whole)
        crafted(rng, rng.choice((content, content["parts"])))
        write_state(path, "checkpoint of a walk", content)
        model = rotta.adapt(net, "rotta", **options)
        before = fingerprint(model.state_dict())
        try:
            walk_along(model, along, None, Checkpoint(path, model, math.inf))
        except ValueError:
            refused += 1
            assert fingerprint(model.state_dict()) == before
    assert files / 2 < refused < files


def test_crafted_checkpoints_are_refused_or_fit(tmp_path: Path) -> None:
    crafted_checkpoints(50, tmp_path)


@pytest.mark.slow
def test_two_thousand_crafted_checkpoints_are_refused_or_fit(tmp_path: Path) -> None:
    crafted_checkpoints(2000, tmp_path)


@pytest.mark.slow
def test_ten_thousand_crafted_files_are_refused_or_fit(tmp_path: Path) -> None:
    crafted_files(10_000, tmp_path)


def test_damaged_files_are_refused_and_change_nothing(tmp_path: Path) -> None:
    fuzzed(500, tmp_path)


@pytest.mark.slow
def test_ten_thousand_damaged_files_are_refused_and_change_nothing(tmp_path: Path) -> None:
    fuzzed(20_000, tmp_path)
