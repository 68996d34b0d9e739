"""PACS and DomainNet by name: where they are found, and what is said when they are not."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rotta.datasets import load_dataset
from rotta.datasets.domains import DomainFolder
from rotta.datasets.named_domains import NAMED_DOMAINS, load_named_domains

real_data = pytest.mark.skipif(
    "ROTTA_HOME" not in os.environ, reason="needs data/pacs: set ROTTA_HOME"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``$ROTTA_HOME``, beside a ``$ROTTA_CACHE`` that need not exist."""
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "home"


def make(name: str, folder: Path, images: int = 12) -> Path:
    """A small copy of PACS or DomainNet in ``data/`` of ``folder``: two classes, tiny images."""
    root = folder / "data" / name
    published = NAMED_DOMAINS[name]
    for domain in published.domains:
        lists: dict[str, list[str]] = {"train": [], "test": []}
        for label, class_name in enumerate(("axe", "bee")):
            (root / domain / class_name).mkdir(parents=True)
            for number in range(images):
                file = f"{domain}/{class_name}/{number}.png"
                Image.new("RGB", (8, 8), (label, number, 0)).save(root / file)
                lists["test" if number % 4 == 0 else "train"].append(f"{file} {label}\n")
        if published.with_lists:
            for split, lines in lists.items():
                (root / f"{domain}_{split}.txt").write_text("".join(lines))
    return root


@pytest.mark.parametrize("name", NAMED_DOMAINS)
def test_it_is_what_the_folder_is(name: str, home: Path) -> None:
    root = make(name, home)
    for split in ("train", "test", "all"):
        by_name = load_dataset(name, split=split, limit=4, image_size=12)
        by_path = load_dataset(f"domains:{root}", split=split, limit=4, image_size=12)
        assert by_name.domains == by_path.domains == NAMED_DOMAINS[name].domains
        assert by_name.classes == by_path.classes == ("axe", "bee")
        for domain in by_name.domains:
            ours, theirs = by_name.domain(domain), by_path.domain(domain)
            assert ours.labels.tolist() == theirs.labels.tolist()
            everything = np.arange(len(ours.labels))
            assert ours.images(everything).equal(theirs.images(everything))
            assert ours.images(everything).shape[2:] == (12, 12)


@pytest.mark.parametrize("name", NAMED_DOMAINS)
def test_what_results_state_does_not_name_the_machine(name: str, home: Path) -> None:
    make(name, home)
    here = load_dataset(name)
    shutil.move(home / "data", home.parent / "cache" / "data")
    elsewhere = load_dataset(name)
    assert here.name == elsewhere.name == name
    assert here.provenance == elsewhere.provenance
    assert here.provenance["folder"] == f"data/{name}"
    assert "md5 of names and labels" in here.provenance
    with pytest.raises(ValueError, match=f"domain of {name}"):
        here.domain("fog")


def root_of(dataset: DomainFolder) -> Path:
    return dataset.domain(dataset.domains[0]).root


def test_home_comes_before_the_cache_if_it_lacks_nothing(home: Path) -> None:
    at_home, in_cache = make("domainnet", home), make("domainnet", home.parent / "cache")
    assert root_of(load_named_domains("domainnet")) == at_home
    (at_home / "real_train.txt").unlink()
    assert root_of(load_named_domains("domainnet")) == in_cache


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pacs", ["4 domains of 7 classes", "<domain>/<class>/<image>"]),
        ("domainnet", ["http://ai.bu.edu/M3SDA/", "cleaned", "<domain>_train.txt"]),
    ],
)
def test_what_is_missing_is_answered_with_what_to_get_and_where_to_put_it(
    name: str, says: list[str], home: Path
) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        load_dataset(name)
    message = str(raised.value)
    places = [str(folder / "data" / name) for folder in (home, home.parent / "cache")]
    assert message.endswith(f"in {places[1]}")
    assert all(words in message for words in (*says, *places))


def test_parts_that_are_missing_are_named(home: Path) -> None:
    root = make("domainnet", home)
    (root / "real_train.txt").unlink()
    shutil.rmtree(root / "sketch")
    with pytest.raises(FileNotFoundError, match=r"domainnet lacks real_train\.txt, sketch;"):
        load_dataset("domainnet")


def test_a_damaged_list_is_not_taken_for_a_missing_set(home: Path) -> None:
    root = make("domainnet", home)
    (root / "real_test.txt").write_text("nonsense\n")
    with pytest.raises(ValueError, match=r"real_test\.txt, line 1"):
        load_dataset("domainnet")


@real_data
def test_the_real_pacs_is_found() -> None:
    dataset = load_dataset("pacs", split="all")
    assert dataset.domains == NAMED_DOMAINS["pacs"].domains
    assert len(dataset.classes) == 7
    assert sum(len(dataset.domain(name).labels) for name in dataset.domains) == 9991
