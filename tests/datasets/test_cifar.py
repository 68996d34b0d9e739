"""CIFAR: read from the official files, refused when they are not what was published."""

import hashlib
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rotta.datasets import load_dataset
from rotta.datasets.cifar import CIFARS, load_cifar
from rotta.datasets.unpickle import unpickle

real_data = pytest.mark.skipif(
    "ROTTA_HOME" not in os.environ, reason="needs CIFAR's test files: set ROTTA_HOME"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def two_batches(cache: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A training set of two files of two images, in CIFAR's own format."""
    rows = np.random.default_rng(0).integers(0, 256, (4, 3072), np.uint8)
    folder = cache / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    files = {}
    for number in (0, 1):
        part = slice(2 * number, 2 * number + 2)
        table = {"data": rows[part], "labels": [2 * number, 2 * number + 1]}
        content = pickle.dumps(table, protocol=2)
        (folder / f"data_batch_{number}").write_bytes(content)
        files[f"data_batch_{number}"] = hashlib.md5(content).hexdigest()
    monkeypatch.setitem(CIFARS, "cifar10", replace(CIFARS["cifar10"], files={"train": files}))
    return rows


def test_batches_are_joined_and_planes_become_channels(two_batches: np.ndarray) -> None:
    train = load_dataset("cifar10", split="train").domain("clean")
    assert train.labels.tolist() == [0, 1, 2, 3]
    images = train.images(np.array([3, 0]))
    assert images.flatten(1).tolist() == two_batches[[3, 0]].tolist()


def test_provenance_names_every_file(two_batches: np.ndarray) -> None:
    provenance = load_dataset("cifar10", split="train").provenance
    assert list(provenance) == ["data_batch_0", "data_batch_1"]


def test_a_truncated_file_is_named_with_both_checksums(
    two_batches: np.ndarray, cache: Path
) -> None:
    path = cache / "data" / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="Delete it and download") as caught:
        load_cifar("cifar10", split="train")
    found = hashlib.md5(path.read_bytes()).hexdigest()
    for part in (str(path), found, CIFARS["cifar10"].files["train"]["data_batch_1"]):
        assert part in str(caught.value)


def test_a_file_with_code_does_not_even_reach_the_unpickler(
    two_batches: np.ndarray, cache: Path
) -> None:
    path = cache / "data" / "cifar-10-batches-py" / "data_batch_0"
    path.write_bytes(pickle.dumps(print))
    with pytest.raises(ValueError, match="md5"):
        load_cifar("cifar10", split="train")


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_missing_files_are_named_with_places_and_address(name: str, cache: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset(name)
    archive = CIFARS[name].archive
    for part in (*CIFARS[name].files["test"], str(cache / archive.relative), archive.url):
        assert part in str(caught.value)


def test_the_question_names_size_address_and_place(cache: Path) -> None:
    questions: list[str] = []

    def decline(question: str) -> bool:
        questions.append(question)
        return False

    with pytest.raises(FileNotFoundError):
        load_dataset("cifar10", download=decline)
    assert questions == [
        "download CIFAR-10 (170 MB) from https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz "
        f"to {cache / 'data' / 'cifar-10-batches-py'}?"
    ]


@real_data
@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_the_official_test_sets(name: str, classes: int) -> None:
    dataset = load_dataset(name)
    clean = dataset.domain("clean")
    assert np.bincount(clean.labels).tolist() == [10_000 // classes] * classes
    assert clean.images(np.array([0, 9_999])).shape == (2, 3, 32, 32)
    assert dataset.mirrored
    assert len(set(dataset.classes)) == classes


@real_data
@pytest.mark.parametrize(
    ("name", "file", "key", "md5"),
    [
        ("cifar10", "batches.meta", "label_names", "5ff9c542aee3614f3951f8cda6e48888"),
        ("cifar100", "meta", "fine_label_names", "7973b15100ade9c7d40fb424638fde48"),
    ],
)
def test_class_names_are_those_of_the_official_files(
    name: str, file: str, key: str, md5: str
) -> None:
    cifar = CIFARS[name]
    content = (Path(os.environ["ROTTA_HOME"]) / cifar.archive.relative / file).read_bytes()
    assert hashlib.md5(content).hexdigest() == md5
    assert tuple(unpickle(content, name=file)[key]) == cifar.classes


@real_data
def test_the_first_test_image_of_cifar10_is_a_cat() -> None:
    clean = load_dataset("cifar10", limit=2).domain("clean")
    assert clean.labels.tolist() == [3, 8]
    assert clean.images(np.array([0]))[0, :, 0, 0].tolist() == [158, 112, 49]
