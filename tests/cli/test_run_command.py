"""``rotta run`` as a person types it: the table, the files, and what is kept when it breaks off."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import save_file
from torch import Tensor
from typer.testing import CliRunner, Result

from rotta.adapters import METHODS, PAPER_METHODS, Source
from rotta.cli import app, console, live, main, options, performing
from rotta.cli.run_folder import CHECKPOINTS
from rotta.comparison import Failed, Look
from rotta.models import read_weights

forks = pytest.mark.skipif(sys.platform != "linux", reason="forks, as only Linux allows")

SMALL = ("run", "--limit", "30", "--order", "fog,snow")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def rotta(*words: str) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"})


def record(folder: Path | str) -> Any:
    return json.loads((Path(folder) / "result.json").read_text())


class RunsOut(Source):
    """A method that raises at once."""

    def infer(self, x: Tensor) -> Tensor:
        raise RuntimeError("out of [memory]")


def test_run_compares_every_method_of_the_paper_but_the_slow_one() -> None:
    done = rotta(*SMALL, "--out", "result")
    assert done.exit_code == 0, done.output
    stored = record("result")
    assert list(stored["methods"]) == [name for name in PAPER_METHODS if name != "cotta"]
    assert stored["config"]["complete"] is True
    assert stored["config"]["classes"] == [str(digit) for digit in range(10)]
    for name, scored in stored["methods"].items():
        assert list(scored["per_domain"]) == ["fog", "snow"]
        assert scored["average_error"] == pytest.approx(sum(scored["per_domain"].values()) / 2)
        assert f"{name}, seed 0: error {scored['average_error']:.1f} %" in done.stderr
        assert re.search(rf"^ {name}\b.* {scored['average_error']:.1f} ", done.stdout, re.M | re.I)
    for file in ("report.html", "result.json", "stream.png"):
        assert str(Path("result") / file) in done.stdout
        assert (Path("result") / file).stat().st_size > 1000
    with Image.open("result/stream.png") as picture:
        assert picture.width > 1000
    assert "rotta run --methods all" in done.stdout.splitlines()[-1]


def test_the_first_line_tells_what_is_run_where_no_bar_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("run", "--methods", "source,bn:guard=true", "--limit", "5", "--order", "fog")
    begins = "running source, bn:guard=true over digits-c, 1 batch"
    done = rotta(*words, "--device", "cpu")
    first = f"{begins}, on cpu; results go to {Path('runs/digits-c-ptta-seed0')}"
    assert done.stderr.splitlines()[0] == first
    assert "running" not in done.stdout
    more = rotta(*words, "--seeds", "0,1", "--out", "[mine]").stderr
    assert f"{begins} for each of 2 seeds, on " in more
    assert more.splitlines()[0].endswith(" results go to [mine]")
    Path("[mine]/report.html").unlink()
    assert rotta("run", "--resume", "[mine]").stderr.splitlines()[0] == more.splitlines()[0]
    terminal = io.StringIO()
    monkeypatch.setattr(console, "errors", Console(force_terminal=True, file=terminal))
    assert "running" not in rotta(*words, "--out", "there").stderr + terminal.getvalue()


def test_named_methods_are_run_as_named_and_in_that_order() -> None:
    done = rotta(*SMALL, "--methods", "rotta:capacity=16,source", "--out", "result")
    assert list(record("result")["methods"]) == ["rotta:capacity=16", "source"]
    bank = record("result")["methods"]["rotta:capacity=16"]["seeds"]["0"]["bank"]
    assert max(sum(counts) for counts in bank["counts"]) <= 16
    assert "--methods all" not in done.output


def test_seeds_share_a_result_and_each_is_the_one_of_its_own_run() -> None:
    words = (*SMALL, "--methods", "source")
    both = rotta(*words, "--seeds", "0,3")
    assert "mean of 2 seeds" in both.stdout
    assert " ± " in both.stdout
    assert rotta(*words, "--seed", "3").exit_code == 0
    stored = record("runs/digits-c-ptta-seeds0-3")
    alone = record("runs/digits-c-ptta-seed3")["methods"]["source"]["seeds"]["3"]
    scored = stored["methods"]["source"]
    timeless = {**scored["seeds"]["3"], "ms_per_batch": alone["ms_per_batch"]}
    assert timeless == alone
    assert stored["config"]["seeds"] == [0, 3]
    assert stored["provenance"]["data"]["seed"] == "0"  # the images are the same for all
    averages = [scored["seeds"][seed]["average_error"] for seed in "03"]
    assert scored["average_error"] == pytest.approx(sum(averages) / 2)


def test_run_takes_what_it_is_told() -> None:
    words = ("run", "--methods", "source", "--limit", "20", "--order", "fog", "--visits", "3")
    told = ("--batch-size", "7", "--setting", "fully", "--severity", "1")
    done = rotta(*words, *told, "--out", "mild")
    assert "1 method over 9 batches, 60 images, Fully TTA" in done.output  # 3 visits of 7 + 7 + 6
    assert "the same by visit:" in done.output
    assert "visit 3" in done.output
    config = record("mild")["config"]
    assert (config["severity"], config["visits"], config["batch_size"]) == (1, 3, 7)
    assert rotta(*words, "--delta", "inf", "--out", "hard").exit_code == 0
    error = {name: record(name)["methods"]["source"]["average_error"] for name in ("mild", "hard")}
    assert error["mild"] < error["hard"]


def test_a_run_does_not_replace_another_unasked() -> None:
    words = ("run", "--methods", "source", "--limit", "5", "--order", "fog")
    for _ in range(2):
        assert rotta(*words).exit_code == 0
    names = sorted(p.name for p in Path("runs").iterdir())
    assert names == ["digits-c-ptta-seed0", "digits-c-ptta-seed0-2"]


def test_a_folder_that_holds_a_result_is_refused_before_anything_is_computed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine").mkdir()
    Path("mine/result.json").write_text("precious")
    monkeypatch.setattr(sys, "argv", ["rotta", *SMALL, "--out", "mine"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "mine holds a result.json already: give --out another name" in capsys.readouterr().err
    assert Path("mine/result.json").read_text() == "precious"
    assert [p.name for p in Path().rglob("*")] == ["mine", "result.json"]


def test_a_method_that_raises_is_named_and_the_others_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(METHODS, "tent", RunsOut)
    done = rotta(*SMALL, "--methods", "source,tent,bn", "--out", "result")
    assert done.exit_code == 1
    assert "failed: tent, seed 0: RuntimeError: out of [memory]" in done.stderr
    stored = record("result")
    assert list(stored["methods"]) == ["source", "bn"]
    assert stored["config"]["complete"] is False
    assert [failed["label"] for failed in stored["config"]["failed"]] == ["tent"]
    assert Path("result/report.html").exists()


def test_when_every_method_raises_there_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "tent", RunsOut)
    done = rotta(*SMALL, "--methods", "tent", "--out", "result")
    assert (done.exit_code, done.stdout) == (1, "")


class Blinks(Source):
    """A method whose camera spoils the first image of each batch."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(torch.cat([torch.full_like(x[:1], torch.nan), x[1:]]))


def test_what_guards_did_and_what_was_skipped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from rotta.guard import guard

    monkeypatch.setattr(guard, "TOO_FAR", 1e-2)
    monkeypatch.setattr(guard, "LOOK_EVERY", 3)
    monkeypatch.setitem(METHODS, "lame", Blinks)
    methods = "bn,bn:guard=true,tent:lr=0.05:guard=true,lame:bad_input=skip"
    words = (*SMALL, "--batch-size", "6", "--methods", methods, "--jobs", "1", "--out", "result")
    done = rotta(*words)
    assert done.exit_code == 0, done.output
    walks = {label: m["seeds"]["0"] for label, m in record("result")["methods"].items()}
    actions = [event["action"] for event in walks["tent:lr=0.05:guard=true"]["events"]]
    alarms = len(actions) - actions.count("raise the rate")
    assert alarms > 1
    told = [line for line in done.stdout.splitlines() if "guard: " in line or "skipped" in line]
    assert told[0] == "BN (guard=true): guard: no alarm"
    assert told[1].startswith(f"TENT (lr=0.05, guard=true): guard: {alarms} alarms, ")
    assert f"{actions.count('reset')} reset" in told[1]
    assert told[2:] == ["LAME (bad_input=skip): skipped 10 images"]
    assert walks["lame:bad_input=skip"]["skipped"] == {"non-finite": 10}
    assert (walks["bn"]["events"], walks["bn"]["skipped"]) == ([], None)
    assert "What the guard did" in Path("result/report.html").read_text()


@forks
def test_walks_at_the_same_time_are_stated_and_keep_their_order() -> None:
    words = (*SMALL, "--methods", "source,lame,bn", "--device", "cpu", "--out", "result")
    done = rotta(*words, "--jobs", "2")
    assert done.exit_code == 0, done.output
    assert "Practical TTA, with 2 at a time, one thread each\n" in done.stdout
    assert done.stderr.count(", seed 0: error ") == 3
    stored = record("result")
    assert list(stored["methods"]) == ["source", "lame", "bn"]
    assert stored["config"]["jobs"] == 2
    assert stored["provenance"]["threads"] == 1
    assert stored["provenance"]["device"].endswith("CPU, 1 thread")


def test_one_walk_has_all_threads_however_many_jobs_there_may_be() -> None:
    done = rotta(*SMALL, "--methods", "source", "--jobs", "1", "--out", "result")
    assert "at a time" not in done.stdout
    assert record("result")["config"]["jobs"] == 1
    assert record("result")["provenance"]["threads"] == torch.get_num_threads()
    assert options.pick_jobs(1, "cpu", walks=1) == 1


def test_jobs_that_cannot_be_are_refused_before_anything_is_computed() -> None:
    assert rotta(*SMALL, "--jobs", "0", "--out", "result").exit_code == 2
    with pytest.raises(ValueError, match="2 jobs need the CPU, not cuda"):
        options.pick_jobs(2, "cuda", walks=5)
    assert not Path("result").exists()


def test_seeds_of_a_method_that_walk_at_the_same_time_share_its_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(live, "errors", Console(force_terminal=True, width=120, file=written))
    with live.Live(["bn"], seeds=3) as shown:
        shown.look(Look("bn", 0, batches=4, total=10, error=10.0, seconds=8.0, speed=0.5))
        shown.look(Look("bn", 1, batches=6, total=10, error=20.0, seconds=12.0, speed=0.5))
        shown.rest()
        both = re.sub(r"\x1b\[[\d;]*m", "", written.getvalue())
        shown.end(Failed("bn", 0, "RuntimeError", ""))
        shown.look(Look("bn", 1, batches=7, total=10, error=21.0, seconds=14.0, speed=0.5))
    # 20 s of walking for 10 of 30 batches, and 40 s more for two at a time
    assert re.search(r"bn .* 10/30 +15\.0 % +0:20  left 0:20", both)
    assert re.search(r" 7/30 +21\.0 % +0:14  left 0:46", written.getvalue())


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=forks)])
def test_ctrl_c_keeps_what_is_finished_and_says_where(tmp_path: Path, jobs: str) -> None:
    seeds = ",".join(str(seed) for seed in range(1000))
    words = [*SMALL, "--methods", "source", "--seeds", seeds, "--out", "result"]
    words += ["--device", "cpu", "--jobs", jobs]
    running = subprocess.Popen(
        [sys.executable, "-m", "rotta", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    while not (tmp_path / "result" / "result.json").exists() and running.poll() is None:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: all that belongs to it
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert "Traceback" not in told
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)  # nobody is left
    kept = Path("result") / "result.json"
    assert told.splitlines()[-1].startswith(f"stopped: what was finished is in {kept}")
    stored = record("result")
    assert stored["config"]["complete"] is False
    assert 1 <= len(stored["methods"]["source"]["seeds"]) < 1000


def test_who_stops_a_run_is_told_from_where_it_would_go_on(tmp_path: Path) -> None:
    unfinished = SimpleNamespace(path=tmp_path / "result.json", walks=[])
    resuming = f"`rotta run --resume {tmp_path}` goes on with the rest from"
    before = f"no method has come to its end; {resuming} its beginning"
    assert performing._what_is_kept(unfinished) == before  # type: ignore[arg-type]
    (tmp_path / CHECKPOINTS).mkdir()
    assert performing._what_is_kept(unfinished) == before  # type: ignore[arg-type]
    (tmp_path / CHECKPOINTS / "rotta-seed0.safetensors").touch()
    after = performing._what_is_kept(unfinished)  # type: ignore[arg-type]
    assert after == f"no method has come to its end; {resuming} its last checkpoints"


@pytest.mark.parametrize("end", ["Stopped('kept')", "KeyboardInterrupt"])
def test_a_second_ctrl_c_while_the_command_ends_is_not_heard(end: str) -> None:
    """Pressed when Python waits for threads that are left, at the latest."""
    script = f"""
import os, signal, sys, threading, time
from rotta import cli
from rotta.cli.console import Stopped

def presses():
    threading.main_thread().join()  # which ends its work before Python waits
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)

def command():
    threading.Thread(target=presses).start()
    raise {end}

cli.app.registered_commands[0].callback = command
sys.argv = ["rotta", cli.app.registered_commands[0].name]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert done.stderr == ("stopped: kept\n" if "kept" in end else "stopped\n")


def test_help_names_every_method_and_how_options_are_given() -> None:
    shown = rotta("run", "--help").output
    for name in (*METHODS, "all", "note:lr=0.001"):
        assert re.search(rf"\b{name}\b", shown)


# Of which size the images of a folder are


DOMAINS = ("run", "--dataset", "domains:mine", "--methods", "source", "--device", "cpu")


def picture_folder() -> None:
    """Two domains of two classes, 24×24, with lists as DomainNet has them."""
    for domain in ("day", "night"):
        Path("mine", domain).mkdir(parents=True)
        lines = []
        for number in range(8):
            file = Path("mine", domain, f"{number}.png")
            Image.new("RGB", (24, 24), (30 * number, 9, 99)).save(file)
            lines.append(f"{domain}/{number}.png {number % 2}\n")
        for split in ("train", "test"):
            Path("mine", f"{domain}_{split}.txt").write_text("".join(lines))


def trained(*words: str) -> None:
    made = ("train", "--arch", "wrn-10-1", "--dataset", "domains:mine", "--domain", "day")
    done = rotta(*made, "--epochs", "1", "--batch-size", "8", "--out", "day.safetensors", *words)
    assert done.exit_code == 0, done.output


def size_of_run(*words: str) -> tuple[str, str]:
    """The size of the images, and what was said besides the results."""
    done = rotta(*DOMAINS, "--source", "day.safetensors", "--out", "result", *words)
    assert done.exit_code == 0, done.output
    size = record("result")["provenance"]["data"]["image size"]
    shutil.rmtree("result")
    return size, done.stderr


def test_a_run_takes_the_image_size_of_the_training() -> None:
    picture_folder()
    trained("--image-size", "16")
    size, told = size_of_run()
    assert (size, "warning" in told) == ("16", False)
    size, told = size_of_run("--image-size", "16")
    assert (size, "warning" in told) == ("16", False)
    size, told = size_of_run("--image-size", "20")
    assert size == "20"
    warning = "warning: day.safetensors was trained on images of 16×16 pixels, and gets 20×20: "
    assert told.startswith(warning + "leave out --image-size")


def test_the_size_is_noted_where_it_was_not_typed() -> None:
    picture_folder()
    trained()
    Image.new("RGB", (20, 20)).save("mine/day/0.png")  # which decides, if nothing else does
    assert size_of_run()[0] == "24"


def test_files_that_state_no_size_run_as_they_did() -> None:
    picture_folder()
    trained("--image-size", "16")
    weights, metadata = read_weights(Path("day.safetensors"))
    del metadata["image_size"]
    save_file(weights, "day.safetensors", metadata)
    for typed, size in (((), "24"), (("--image-size", "20"), "20")):
        assert size_of_run(*typed)[0] == size
        assert "warning" not in size_of_run(*typed)[1]


def test_a_resumed_run_keeps_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    picture_folder()
    trained("--image-size", "16")
    words = (*DOMAINS, "--source", "day.safetensors", "--image-size", "20", "--out", "result")
    with monkeypatch.context() as once:
        once.setitem(METHODS, "source", RunsOut)
        assert rotta(*words).exit_code == 1
    done = rotta("run", "--resume", "result")
    assert done.exit_code == 0, done.output
    assert record("result")["provenance"]["data"]["image size"] == "20"


def test_a_size_where_there_is_no_choice_is_refused_as_ever() -> None:
    refused = rotta("run", "--image-size", "16").exception
    assert "digits-c has images of one size; leave image_size out" in str(refused)
