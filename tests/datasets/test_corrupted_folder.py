"""The layout of CIFAR-10-C: written, read back, and refused when something is wrong with it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rotta.corruptions import corrupt
from rotta.datasets import Dataset, load_dataset, write_corrupted
from rotta.datasets.corrupted_folder import DOMAIN_ORDER, open_folder

IMAGES = 6
CHOSEN = ("gaussian_noise", "brightness")


@pytest.fixture(autouse=True)
def _no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def digits() -> Dataset:
    return load_dataset("digits", limit=IMAGES)


def published(folder: Path, corruptions: tuple[str, ...] = DOMAIN_ORDER) -> Path:
    """A folder as its authors would publish it: no record, five severities, labels repeated."""
    folder.mkdir(parents=True)
    for number, name in enumerate(corruptions):
        stack = np.zeros((5 * IMAGES, 32, 32, 3), np.uint8)
        stack[:] = number
        stack[:, 0, 0, 0] = np.repeat(np.arange(1, 6), IMAGES)
        np.save(folder / f"{name}.npy", stack)
    np.save(folder / "labels.npy", np.tile(np.arange(IMAGES, dtype=np.uint8), 5))
    return folder


def test_what_is_written_reads_back_as_corrupt_made_it(digits: Dataset, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    out = tmp_path / "out"
    write_corrupted(
        digits, out, corruptions=CHOSEN, seed=3, progress=lambda done, n: steps.append((done, n))
    )
    again = load_dataset(f"corrupted:{out}")
    assert again.domains == CHOSEN
    assert again.classes == digits.classes
    assert not again.mirrored
    clean = digits.domain("clean").images(np.arange(IMAGES)).float() / 255
    for name in CHOSEN:
        for severity in (1, 2, 3, 4, 5):
            made = corrupt(clean, name, severity, seed=3, index=range(IMAGES))
            read = again.domain(name, severity)
            assert read.images(np.arange(IMAGES)).equal((made * 255).round().to(torch.uint8))
            assert read.labels.tolist() == digits.domain("clean").labels.tolist()
    assert steps[-1] == (2 * 5 * IMAGES, 2 * 5 * IMAGES)
    assert steps == sorted(steps)


def test_five_severities_give_exactly_the_published_layout(digits: Dataset, tmp_path: Path) -> None:
    write_corrupted(digits, tmp_path / "out", corruptions=["contrast"])
    stack = np.load(tmp_path / "out" / "contrast.npy")
    labels = np.load(tmp_path / "out" / "labels.npy")
    assert (stack.dtype, stack.shape) == (np.uint8, (5 * IMAGES, 32, 32, 3))
    assert labels.tolist() == digits.domain("clean").labels.tolist() * 5
    (tmp_path / "out" / "provenance.json").unlink()  # as one that was downloaded
    bare = load_dataset(f"corrupted:{tmp_path / 'out'}")
    assert np.array_equal(
        bare.domain("contrast", 4).images(np.array([1]))[0].permute(1, 2, 0), stack[3 * IMAGES + 1]
    )


def test_some_severities_are_stacked_ascending_and_found_again(
    digits: Dataset, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_corrupted(digits, out, corruptions=["brightness"], severities=[5, 2])
    assert np.load(out / "brightness.npy").shape[0] == 2 * IMAGES
    record = json.loads((out / "provenance.json").read_text())
    assert record["severities"] == [2, 5]
    dataset = load_dataset(f"corrupted:{out}")
    means = [
        dataset.domain("brightness", s).images(np.arange(IMAGES)).float().mean() for s in (2, 5)
    ]
    assert means[0] < means[1]
    with pytest.raises(ValueError, match="holds severity 2, 5, not 3"):
        dataset.domain("brightness", 3)


def test_the_record_says_how_it_was_made(digits: Dataset, tmp_path: Path) -> None:
    write_corrupted(digits, tmp_path, corruptions=["fog"], severities=[1], seed=7)
    record = json.loads((tmp_path / "provenance.json").read_text())
    assert record["dataset"] == "digits"
    assert record["seed"] == 7
    assert record["source"] == dict(digits.provenance)
    assert record["frost"].split(",")[0] in {"procedural", "imagecorruptions"}
    assert record["versions"]["torch"].startswith("2.")
    assert load_dataset(f"corrupted:{tmp_path}").provenance["seed"] == "7"


def test_nothing_is_overwritten_unless_told(digits: Dataset, tmp_path: Path) -> None:
    write_corrupted(digits, tmp_path, corruptions=["fog"], severities=[5], seed=1)
    first = (tmp_path / "fog.npy").read_bytes()
    with pytest.raises(ValueError, match=r"already holds fog\.npy, labels\.npy"):
        write_corrupted(digits, tmp_path, corruptions=["fog"], severities=[5], seed=2)
    assert (tmp_path / "fog.npy").read_bytes() == first
    write_corrupted(digits, tmp_path, corruptions=["fog"], severities=[5], seed=2, overwrite=True)
    assert (tmp_path / "fog.npy").read_bytes() != first


def test_stacks_of_an_earlier_run_are_not_mixed_in(digits: Dataset, tmp_path: Path) -> None:
    write_corrupted(digits, tmp_path, corruptions=["contrast"])
    with pytest.raises(ValueError, match="also holds contrast"):
        write_corrupted(digits, tmp_path, corruptions=["fog"], severities=[5], overwrite=True)
    assert load_dataset(f"corrupted:{tmp_path}").domains == ("contrast",)


def test_a_mistake_costs_a_finished_folder_nothing(digits: Dataset, tmp_path: Path) -> None:
    write_corrupted(digits, tmp_path, corruptions=["frost"], severities=[5])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="no folder"):
        write_corrupted(
            digits, tmp_path, corruptions=["frost"], frost=tmp_path / "no", overwrite=True
        )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("label", [-1, 10**9])
def test_labels_that_count_no_classes_are_refused(
    digits: Dataset, tmp_path: Path, label: int
) -> None:
    write_corrupted(digits, tmp_path, corruptions=["contrast"], severities=[5])
    labels = np.load(tmp_path / "labels.npy")
    labels[0] = label
    np.save(tmp_path / "labels.npy", labels)
    with pytest.raises(ValueError, match=r"labels\.npy holds labels from"):
        load_dataset(f"corrupted:{tmp_path}")


def test_an_interrupted_folder_is_not_taken_for_a_whole_one(
    digits: Dataset, tmp_path: Path
) -> None:
    write_corrupted(digits, tmp_path, corruptions=CHOSEN, severities=[5])

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corrupted(
            digits, tmp_path, corruptions=CHOSEN, severities=[5], overwrite=True, progress=interrupt
        )
    assert sorted(path.name for path in tmp_path.glob("*.*")) == [
        f"{n}.npy" for n in sorted(CHOSEN)
    ]
    with pytest.raises(FileNotFoundError, match=r"labels\.npy is missing"):
        load_dataset(f"corrupted:{tmp_path}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corruptions": ["fogg"]}, "did you mean 'fog'"),
        ({"corruptions": []}, "no corruption was named"),
        ({"severities": [0, 5]}, "severity must be"),
        ({"severities": []}, "no severity was named"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    options: dict[str, list[str]], message: str, digits: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        write_corrupted(digits, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_corrupted_dataset_is_not_corrupted_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a clean dataset"):
        write_corrupted(load_dataset("digits-c"), tmp_path / "out")


def test_a_published_folder_needs_no_record(tmp_path: Path) -> None:
    folder = published(tmp_path / "some-c", ("fog", "speckle_noise", "snow"))
    dataset = open_folder(folder, limit=2)
    assert dataset.domains == ("snow", "fog", "speckle_noise")
    assert dataset.classes == tuple("012345")
    for severity in (1, 5):
        domain = dataset.domain("fog", severity)
        assert domain.images(np.array([0, 1]))[:, 0, 0, 0].tolist() == [severity, severity]
        assert domain.labels.tolist() == [0, 1]


def test_labels_may_be_given_once_for_all_severities(tmp_path: Path) -> None:
    folder = published(tmp_path / "some-c", ("fog",))
    np.save(folder / "labels.npy", np.arange(IMAGES))
    assert open_folder(folder).domain("fog", 3).labels.tolist() == list(range(IMAGES))


def test_stacks_are_mapped_not_read(tmp_path: Path) -> None:
    stack = open_folder(published(tmp_path / "some-c", ("fog",))).stacks["fog"]
    assert isinstance(stack, np.memmap)


def test_a_missing_folder_or_an_empty_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_dataset(f"corrupted:{tmp_path / 'nowhere'}")
    np.save(tmp_path / "labels.npy", np.arange(5))
    with pytest.raises(FileNotFoundError, match="holds no corruption"):
        load_dataset(f"corrupted:{tmp_path}")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("fog.npy", np.zeros((30, 32, 32), np.uint8), "not uint8 images"),
        ("fog.npy", np.zeros((30, 32, 32, 3), np.float32), "holds float32"),
        ("fog.npy", np.zeros((25, 32, 32, 3), np.uint8), r"\(25, 32, 32, 3\).*\(30, 32, 32, 3\)"),
        ("labels.npy", np.arange(29), r"expected whole numbers, \(30,\) or \(6,\)"),
        ("labels.npy", np.zeros(30), "holds float64"),
        ("fog.npy", np.array([{}]), r"fog\.npy is damaged"),
    ],
)
def test_wrong_shapes_and_types_are_named(
    file: str, content: np.ndarray, message: str, tmp_path: Path
) -> None:
    folder = published(tmp_path / "some-c", ("snow", "fog"))
    np.save(folder / file, content)
    with pytest.raises(ValueError, match=message):
        open_folder(folder)


def test_a_truncated_stack_is_named(tmp_path: Path) -> None:
    folder = published(tmp_path / "some-c", ("snow", "fog"))
    (folder / "fog.npy").write_bytes((folder / "fog.npy").read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"fog\.npy is damaged"):
        open_folder(folder)


@pytest.mark.parametrize("record", ["{", "[]", "{}"])
def test_a_damaged_record_is_named(record: str, tmp_path: Path) -> None:
    folder = published(tmp_path / "some-c", ("fog",))
    (folder / "provenance.json").write_text(record)
    with pytest.raises(ValueError, match=r"provenance\.json"):
        open_folder(folder)


def test_the_published_cifar_c_is_used_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    folder = published(tmp_path / "home" / "data" / "CIFAR-10-C")
    dataset = load_dataset("cifar10-c", limit=3)
    assert dataset.name == "cifar10-c"
    assert dataset.domains == DOMAIN_ORDER
    assert dataset.classes[:2] == ("airplane", "automobile")
    assert dataset.domain("fog", 2).images(np.array([0]))[0, :, 0, 0].tolist() == [2, 2, 2]
    assert len(dataset.domain("snow").labels) == 3
    with pytest.raises(ValueError, match="frost pictures change nothing here"):
        load_dataset("cifar10-c", frost=tmp_path)
    (folder / "snow.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks snow\.npy"):
        load_dataset("cifar10-c")


def test_without_any_cifar_both_downloads_are_offered() -> None:
    questions: list[str] = []

    def decline(question: str) -> bool:
        questions.append(question)
        return False

    with pytest.raises(FileNotFoundError, match="CIFAR-100"):
        load_dataset("cifar100-c", download=decline)
    assert [question.split(" (")[0] for question in questions] == [
        "download CIFAR-100",
        "download CIFAR-100-C",
    ]
