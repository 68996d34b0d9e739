"""Image files by domain: DomainNet's lists, PACS's folders, and what can be wrong with them."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rotta.datasets import load_dataset
from rotta.datasets.domains import DomainFolder, fit, load_domains
from rotta.datasets.listing import is_test_file

real_data = pytest.mark.skipif(
    "ROTTA_HOME" not in os.environ, reason="needs data/pacs: set ROTTA_HOME"
)


def picture(path: Path, colour: tuple[int, int, int] = (9, 9, 9), size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), colour).save(path)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two domains of two classes of thirty images; red tells the class, green the domain."""
    for green, domain in enumerate(("sketch", "art")):
        for red, name in enumerate(("cat", "dog")):
            for number in range(30):
                picture(tmp_path / domain / name / f"{number}.png", (red, green, number))
    (tmp_path / "art" / "cat" / "notes.txt").write_text("not an image")
    return tmp_path


@pytest.fixture
def lists(folders: Path) -> Path:
    """The same images with lists, in which one class of one domain does not occur."""
    (folders / "art_train.txt").write_text("art/cat/0.png 1\nart/cat/1.png 1\n")
    (folders / "art_test.txt").write_text("art/cat/2.png 1\n\n")
    (folders / "sketch_train.txt").write_text("sketch/dog/0.png 0\n")
    (folders / "sketch_test.txt").write_text("sketch/dog/1.png 0\nsketch/cat/1.png 1\n")
    return folders


def test_folders_name_domains_and_classes_alphabetically(folders: Path) -> None:
    dataset = load_dataset(f"domains:{folders}", split="all")
    assert dataset.domains == ("art", "sketch")
    assert dataset.classes == ("cat", "dog")
    for green, domain in ((1, "art"), (0, "sketch")):
        images = dataset.domain(domain)
        pixels = images.images(np.arange(60))
        assert pixels.shape == (60, 3, 8, 8)
        assert pixels[:, 0, 0, 0].tolist() == images.labels.tolist()
        assert set(pixels[:, 1, 0, 0].tolist()) == {green}


def names(root: Path, split: str) -> set[str]:
    return {
        file for images in load_domains(root, split=split).sets.values() for file in images.files
    }


def test_train_and_test_part_the_images(folders: Path) -> None:
    train, test, everything = (names(folders, split) for split in ("train", "test", "all"))
    assert not train & test
    assert train | test == everything
    assert 0.1 < len(test) / len(everything) < 0.3


def test_the_split_of_an_image_does_not_depend_on_others(folders: Path) -> None:
    before = names(folders, "test")
    for number in range(30, 60):
        picture(folders / "art" / "cat" / f"{number}.png")
    (folders / "sketch" / "dog" / "3.png").unlink()
    after = names(folders, "test")
    old = {f"{d}/{c}/{n}.png" for d in ("art", "sketch") for c in ("cat", "dog") for n in range(30)}
    assert after & old == before - {"sketch/dog/3.png"}


def test_a_limit_takes_a_mixed_sample(folders: Path) -> None:
    images = load_domains(folders, split="all", limit=12).domain("art")
    assert len(images.files) == len(images.labels) == 12
    assert set(images.labels.tolist()) == {0, 1}
    assert images.files == load_domains(folders, split="all").domain("art").files[:12]


def test_lists_decide_split_labels_and_names(lists: Path) -> None:
    dataset = load_domains(lists, split="test")
    assert dataset.classes == ("dog", "cat")
    assert dataset.domain("art").files == ("art/cat/2.png",)
    assert dataset.domain("art").labels.tolist() == [1]
    sketch = dataset.domain("sketch")
    assert dict(zip(sketch.files, sketch.labels.tolist(), strict=True)) == {
        "sketch/dog/1.png": 0,
        "sketch/cat/1.png": 1,
    }
    assert len(load_domains(lists, split="all").domain("sketch").labels) == 3
    assert len(load_domains(lists, split="train").domain("art").labels) == 2


def test_file_names_may_hold_spaces(lists: Path) -> None:
    picture(lists / "art" / "ice cream" / "a b.png")
    (lists / "art_test.txt").write_text("art/ice cream/a b.png 2\n")
    dataset = load_domains(lists)
    assert dataset.classes == ("dog", "cat", "ice cream")
    assert dataset.domain("art").files == ("art/ice cream/a b.png",)


@pytest.mark.parametrize("line", ["art/cat/3.png", "art/cat/3.png one", "art/cat/3.png -1", "7"])
def test_a_malformed_line_is_named(line: str, lists: Path) -> None:
    (lists / "art_test.txt").write_text(f"art/cat/2.png 1\n{line}\n")
    with pytest.raises(ValueError, match=r"art_test\.txt, line 2: expected"):
        load_domains(lists)


def test_a_list_that_points_nowhere_is_named_with_its_line(lists: Path) -> None:
    for file in ("art/cat/99.png", "art/cow/0.png"):
        (lists / "art_test.txt").write_text(f"art/cat/2.png 1\n{file} 1\n")
        with pytest.raises(FileNotFoundError, match=r"art_test\.txt, line 2: .*does not exist"):
            load_domains(lists)


def test_a_missing_or_empty_list_is_named(lists: Path) -> None:
    (lists / "art_test.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"lists of art .* name no image"):
        load_domains(lists)
    (lists / "art_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"art_test\.txt is missing"):
        load_domains(lists)
    assert load_domains(lists, split="train").domains == ("art", "sketch")


def test_labels_with_a_gap_are_refused(lists: Path) -> None:
    (lists / "art_test.txt").write_text("art/cat/2.png 3\n")
    with pytest.raises(ValueError, match="image of label 2, though labels reach 3"):
        load_domains(lists)


def test_a_class_that_one_domain_lacks_is_named(folders: Path) -> None:
    picture(folders / "art" / "horse" / "0.png")
    with pytest.raises(ValueError, match="sketch lacks the class horse"):
        load_domains(folders)


def test_an_empty_class_folder_is_named(folders: Path) -> None:
    for domain in ("art", "sketch"):
        (folders / domain / "cow").mkdir()
    with pytest.raises(ValueError, match=r"art.cow holds no image"):
        load_domains(folders)


def test_a_domain_without_images_of_the_split_is_named(tmp_path: Path) -> None:
    picture(tmp_path / "photo" / "dog" / "0.png")
    other = "train" if is_test_file("photo/dog/0.png") else "test"
    with pytest.raises(ValueError, match=f"photo has no image for the split {other}"):
        load_domains(tmp_path, split=other)


def test_a_folder_of_something_else_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is it the right folder"):
        load_domains(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_dataset(f"domains:{tmp_path / 'nowhere'}")


def test_an_unreadable_image_is_named(folders: Path) -> None:
    dataset = load_domains(folders, split="all")
    images = dataset.domain("art")
    broken = folders / images.files[7]
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(broken)
    broken.write_bytes(broken.read_bytes()[:3000])
    with pytest.raises(ValueError, match=f"{broken.name} is not a readable image"):
        images.images(np.array([6, 7]))
    assert images.images(np.array([6])).shape == (1, 3, 8, 8)


def test_no_images_are_an_empty_batch(folders: Path) -> None:
    images = load_domains(folders).domain("art")
    assert images.images(np.array([], np.int64)).shape == (0, 3, 8, 8)


def side(dataset: DomainFolder) -> int:
    return dataset.domain(dataset.domains[0]).side


def test_the_size_is_the_native_one_if_square_and_small_else_224(tmp_path: Path) -> None:
    picture(tmp_path / "small" / "photo" / "dog" / "0.png", size=96)
    picture(tmp_path / "large" / "photo" / "dog" / "0.png", size=225)
    oblong = tmp_path / "oblong" / "photo" / "dog" / "0.png"
    oblong.parent.mkdir(parents=True)
    Image.new("RGB", (96, 80)).save(oblong)
    sides = [side(load_domains(tmp_path / n, split="all")) for n in ("small", "large", "oblong")]
    assert sides == [96, 224, 224]
    assert side(load_domains(tmp_path / "small", split="all", image_size=64)) == 64
    with pytest.raises(ValueError, match="at least 1"):
        load_domains(tmp_path / "small", split="all", image_size=0)


def test_grey_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    folder = tmp_path / "photo" / "dog"
    folder.mkdir(parents=True)
    Image.new("L", (8, 8), 50).save(folder / "grey.png")
    Image.new("RGBA", (8, 8), (50, 50, 50, 128)).save(folder / "transparent.png")
    images = load_domains(tmp_path, split="all").domain("photo").images(np.array([0, 1]))
    assert (images == 50).all()


def test_fit_cuts_the_centre_out_of_the_resized_image() -> None:
    same = Image.new("RGB", (96, 96))
    assert fit(same, 96) is same
    # 640×320 becomes 512×256; the middle 224 columns are the middle 7/16 of the original
    wide = np.zeros((320, 640, 3), np.uint8)
    wide[:, 180:460, 0] = 255
    cut = np.asarray(fit(Image.fromarray(wide), 224))
    assert cut.shape == (224, 224, 3)
    assert cut[..., 0].min() >= 120  # the outermost columns blend with black
    assert cut[:, 2:-2, 0].min() == 255


def test_fit_never_falls_short_of_the_crop() -> None:
    for width in range(1, 40):
        assert fit(Image.new("RGB", (width, 7)), 8).size == (8, 8)


def test_provenance_changes_with_the_files(folders: Path) -> None:
    before = load_domains(folders).provenance
    assert load_domains(folders).provenance == before
    one = folders / min(names(folders, "test"))
    one.unlink()
    assert load_domains(folders).provenance != before


@real_data
def test_pacs_is_whole() -> None:
    root = Path(os.environ["ROTTA_HOME"]) / "data" / "pacs"
    dataset = load_domains(root, split="all")
    assert {name: len(images.labels) for name, images in dataset.sets.items()} == {
        "art_painting": 2048,
        "cartoon": 2344,
        "photo": 1670,
        "sketch": 3929,
    }
    assert len(dataset.classes) == 7
    assert dataset.domain("cartoon").images(np.arange(64)).shape == (64, 3, 96, 96)
    test = load_domains(root).sets.values()
    assert 0.18 < sum(len(images.labels) for images in test) / 9991 < 0.22


def test_all_splits_agree_about_the_size_of_images(tmp_path: Path) -> None:
    for number in range(12):
        side = (64, 100, 300)[number % 3]
        file = tmp_path / "photo" / "dog" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (side, side)).save(file)
    sizes = {
        load_dataset(f"domains:{tmp_path}", split=split).provenance["image size"]
        for split in ("train", "test", "all")
    }
    assert sizes == {"64"}
