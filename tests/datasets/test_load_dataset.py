"""The table of names, and options that would mislead."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rotta.datasets import DATASETS, DOMAIN_ORDER, load_dataset


def test_the_table_describes_every_dataset_in_a_line() -> None:
    assert list(DATASETS) == [
        "digits",
        "digits-c",
        "cifar10",
        "cifar100",
        "cifar10-c",
        "cifar100-c",
        "pacs",
        "domainnet",
        "corrupted:PATH",
        "domains:PATH",
    ]
    assert all(entry.description and "\n" not in entry.description for entry in DATASETS.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cifar-10", {}, "did you mean 'cifar10'"),
        ("domain:x", {}, "did you mean .* 'domains:PATH'"),
        ("domains", {}, "did you mean 'domainnet' or 'domains:PATH'"),
        ("domains:", {}, "names no folder"),
        ("digits", {"split": "all"}, "choose 'train' or 'test'"),
        ("cifar10-c", {"split": "train"}, "choose 'test'"),
        ("corrupted:x", {"split": "train"}, "choose 'test'"),
        ("cifar10", {"image_size": 64}, "leave image_size out"),
        ("digits-c", {"image_size": 64}, "leave image_size out"),
        ("digits", {"frost": Path()}, "frost pictures mean nothing to digits"),
        ("corrupted:x", {"frost": Path()}, "frost pictures mean nothing"),
        ("digits", {"limit": 0}, "limit must be at least 1"),
    ],
)
def test_mistakes_are_answered_with_the_remedy(
    name: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(name, **options)  # type: ignore[arg-type]


def test_an_unknown_domain_of_a_clean_set_is_answered() -> None:
    with pytest.raises(ValueError, match="Available: clean"):
        load_dataset("digits").domain("fog")


def test_a_home_in_the_path_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "pictures")):
        load_dataset("domains:~/pictures")


def test_importing_is_light() -> None:
    """What only some users need is not imported with the package."""
    heavy = ("sklearn", "matplotlib", "typer", "rich")
    program = f"import sys, rotta.datasets; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif("ROTTA_HOME" not in os.environ, reason="needs CIFAR: set ROTTA_HOME")
@pytest.mark.parametrize("name", ["cifar10-c", "cifar100-c"])
def test_cifar_c_is_made_from_the_clean_test_set(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    corrupted = load_dataset(name, limit=50)
    assert corrupted.domains == DOMAIN_ORDER
    assert corrupted.mirrored
    clean = load_dataset(name.removesuffix("-c"), limit=50).domain("clean")
    brighter = corrupted.domain("brightness")
    assert brighter.labels.tolist() == clean.labels.tolist()
    everything = np.arange(50)
    before, after = clean.images(everything).float(), brighter.images(everything).float()
    assert (after.mean((1, 2, 3)) >= before.mean((1, 2, 3))).all()
