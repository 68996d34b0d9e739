"""Source models of experiments: trained once, whatever happens in between."""

import fcntl
import os
import shlex
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from domain_tree import write_domain_tree
from typer.testing import CliRunner

from forking import forked, forks
from rotta.cli import app
from rotta.experiments.experiment import Training
from rotta.experiments.training import source_error, source_path, train_source
from rotta.models import build, error_rate, load_source, read_weights, save_weights

QUICK = Training(
    name="domainnet-real",
    dataset="domainnet",
    domain="real",
    arch="wrn-10-1",
    init="digits",
    epochs=3,
    lr=0.05,
    batch_size=8,
    label_smoothing=0.1,
    limit=16,
)
STEPS = QUICK.epochs * 16 // QUICK.batch_size


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ``$ROTTA_HOME`` with a small DomainNet: four classes."""
    folder = tmp_path_factory.mktemp("home")
    write_domain_tree(folder / "data" / "domainnet", classes=4, train=6, test=5)
    return folder


@pytest.fixture(autouse=True)
def cache(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROTTA_HOME", str(home))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def train_quickly(training: Training = QUICK) -> tuple[Path, list[tuple[int, int]]]:
    """The file, and the steps that it took."""
    steps: list[tuple[int, int]] = []
    path = train_source(training, "cpu", lambda *step: steps.append(step))
    return path, steps


def same_weights(a: Path, b: Path) -> bool:
    ours, theirs = read_weights(a)[0], read_weights(b)[0]
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def test_a_source_is_trained_and_says_what_it_is(cache: Path, home: Path) -> None:
    from rotta import load_dataset

    path, steps = train_quickly()
    assert path.parent == cache / "sources"
    assert steps == [(step, STEPS) for step in range(1, STEPS + 1)]
    metadata = read_weights(path)[1]
    assert (metadata["arch"], metadata["classes"]) == ("wrn-10-1", "4")
    assert (metadata["dataset"], metadata["domain"]) == ("domainnet", "real")
    assert str(home) not in str(metadata)
    own_test = load_dataset("domainnet").domain("real")
    assert source_error(path) == pytest.approx(error_rate(load_source(path), own_test), abs=0.01)
    assert not path.with_name(f"{path.name}.training").exists()


def test_its_own_command_makes_it_again(tmp_path: Path) -> None:
    path, _ = train_quickly()
    program, *words = shlex.split(read_weights(path)[1]["training"])
    assert program == "rotta"
    again = tmp_path / "again.safetensors"
    done = CliRunner().invoke(app, [*words, "--device", "cpu", "--out", str(again)])
    assert done.exit_code == 0, done.output
    assert same_weights(path, again)
    assert f"error {source_error(path):.2f} % on the test images of real" in done.output


def test_a_finished_source_is_found_again_without_its_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = train_quickly()
    before = path.stat()
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "nowhere"))
    again, steps = train_quickly()
    assert again == path
    assert steps == []
    assert path.stat() == before


@pytest.mark.parametrize(
    "change",
    [
        {"domain": "sketch"},
        {"init": None},
        {"epochs": 4},
        {"lr": 0.01},
        {"batch_size": 4},
        {"weight_decay": 0.1},
        {"label_smoothing": 0.0},
        {"image_size": 16},
        {"seed": 1},
        {"limit": None},
    ],
)
def test_another_setting_is_another_file_with_other_weights(change: dict[str, object]) -> None:
    other = replace(QUICK, **change)  # type: ignore[arg-type]
    ours, theirs = (train_quickly(training)[0] for training in (QUICK, other))
    assert ours.name != theirs.name
    assert theirs.name.startswith("domainnet-real-")
    assert not same_weights(ours, theirs)


def train_until_killed() -> None:
    def kill_in_the_second_epoch(done: int, total: int) -> None:
        assert total == STEPS
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    train_source(QUICK, "cpu", kill_in_the_second_epoch)


@forks
def test_killed_in_the_middle_it_continues_to_the_same_weights(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = forked(train_until_killed)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    path = source_path(QUICK)
    assert path.with_name(f"{path.name}.training").is_file()
    assert not path.exists()

    continued, steps = train_quickly()
    assert continued == path
    assert steps == [(step, STEPS) for step in range(3, STEPS + 1)]

    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "other"))
    whole, steps = train_quickly()
    assert len(steps) == STEPS
    assert same_weights(continued, whole)
    assert read_weights(continued)[1] == read_weights(whole)[1]


def test_a_second_process_waits_and_finds_what_the_first_made(tmp_path: Path) -> None:
    path = source_path(QUICK)
    finished = tmp_path / "finished.safetensors"
    save_weights(finished, build("wrn-10-1", 4), {"clean_test_error": "12.50"})
    path.parent.mkdir(parents=True)
    with (
        ThreadPoolExecutor() as pool,
        path.with_name(f"{path.name}.lock").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = pool.submit(train_quickly)
        with pytest.raises(TimeoutError):
            second.result(timeout=0.5)
        shutil.copy(finished, path)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert second.result() == (path, [])
    assert source_error(path) == 12.5


def test_missing_images_are_answered_at_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="DomainNet was not found"):
        train_quickly()
    assert not source_path(QUICK).exists()


def test_a_file_that_states_no_error_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_weights(file, build("wrn-10-1", 4), {"arch": "wrn-10-1"})
    with pytest.raises(ValueError, match="delete it, and it is trained anew"):
        source_error(file)


def test_the_tree_is_in_the_layout_of_domainnet(tmp_path: Path) -> None:
    from rotta.datasets.domains import load_domains

    root = write_domain_tree(tmp_path, domains=("real", "sketch"), classes=3, train=2, test=1)
    line = (root / "real_test.txt").read_text().splitlines()[1]
    assert line == "real/class_001/real_002_000003.jpg 1"
    train, test = (load_domains(root, split=split) for split in ("train", "test"))
    assert train.classes == ("class_000", "class_001", "class_002")
    assert [len(data.domain("sketch").labels) for data in (train, test)] == [6, 3]
    assert train.domain("real").side == 32
