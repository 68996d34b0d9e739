"""Corrupted sets that are made here: made once, the same ever after."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rotta.corruptions import corrupt, load_textures
from rotta.datasets import load_dataset
from rotta.datasets.corrupted_folder import DOMAIN_ORDER
from rotta.datasets.digits import load_digits
from rotta.datasets.generated import CorruptionRecipe, GeneratedDataset, generate


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def digits_c(**options: object) -> GeneratedDataset:
    dataset = load_dataset("digits-c", **options)  # type: ignore[arg-type]
    assert isinstance(dataset, GeneratedDataset)
    return dataset


def few() -> GeneratedDataset:
    """Forty digits, where the number does not matter."""
    return generate("few-c", load_digits(limit=40), CorruptionRecipe(0, load_textures()))


def expected(corruption: str, severity: int, images: int, seed: int = 0) -> torch.Tensor:
    positions = torch.arange(images)
    clean = load_digits(views=4).domain("clean").images(positions.numpy()).float() / 255
    dirty = corrupt(
        clean, corruption, severity, seed=seed, index=positions, textures=load_textures()
    )
    return (dirty * 255).round().to(torch.uint8)


def test_it_has_the_papers_domains_in_the_papers_order() -> None:
    dataset = digits_c()
    assert dataset.domains == DOMAIN_ORDER
    assert len(dataset.domains) == 15
    assert dataset.domains[0] == "motion_blur"
    assert dataset.domains[-1] == "impulse_noise"
    assert dataset.classes == tuple("0123456789")
    assert not dataset.mirrored


@pytest.mark.parametrize(("corruption", "severity"), [("gaussian_noise", 5), ("frost", 1)])
def test_a_domain_is_the_clean_set_corrupted(corruption: str, severity: int) -> None:
    domain = digits_c().domain(corruption, severity)
    clean = load_digits(views=4).domain("clean")
    assert domain.labels.tolist() == clean.labels.tolist()
    assert domain.images(np.arange(3588)).equal(expected(corruption, severity, 3588))


def test_the_second_touch_reads_the_file_of_the_first(cache: Path) -> None:
    first = np.array(few().domain("brightness", 3).pixels)
    files = list(cache.rglob("*.npy"))
    assert [file.name for file in files] == ["brightness-3.npy"]
    before = files[0].stat().st_mtime_ns
    again = few().domain("brightness", 3).pixels
    assert isinstance(again, np.memmap)
    assert np.array_equal(again, first)
    assert files[0].stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["truncated", "empty", "other shape", "other type"])
def test_a_damaged_file_is_made_again(damage: str, cache: Path) -> None:
    sound = np.array(few().domain("contrast").pixels)
    (file,) = cache.rglob("*.npy")
    match damage:
        case "truncated":
            file.write_bytes(file.read_bytes()[:-1])
        case "empty":
            file.write_bytes(b"")
        case "other shape":
            np.save(file, sound[:-1])
        case "other type":
            np.save(file, sound.astype(np.int8))
    assert np.array_equal(few().domain("contrast").pixels, sound)
    assert np.array_equal(np.load(file), sound)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_limit_makes_only_what_is_asked_and_keeps_it_in_memory(cache: Path) -> None:
    steps: list[tuple[int, int]] = []
    dataset = digits_c(limit=20, progress=lambda done, total: steps.append((done, total)))
    domain = dataset.domain("fog")
    assert domain.images(np.arange(20)).equal(expected("fog", 5, 20))
    assert len(domain.labels) == 20
    assert steps == [(20, 20)]
    assert dataset.domain("fog").pixels is domain.pixels
    assert not cache.exists()


def test_a_limit_takes_a_slice_of_the_whole_file_if_there_is_one() -> None:
    whole = digits_c().domain("pixelate").pixels
    domain = digits_c(limit=20).domain("pixelate")
    assert isinstance(domain.pixels, np.memmap)
    assert np.array_equal(domain.pixels, whole[:20])
    assert len(domain.labels) == 20


def test_a_limit_beyond_the_set_is_no_limit(cache: Path) -> None:
    assert len(digits_c(limit=5000).domain("brightness").pixels) == 3588
    assert len(list(cache.rglob("*.npy"))) == 1


def test_progress_counts_the_images_of_a_domain() -> None:
    steps: list[tuple[int, int]] = []
    dataset = digits_c(progress=lambda done, total: steps.append((done, total)))
    assert len(dataset.domain("brightness").labels) == 3588
    assert steps == []  # labels need no images
    dataset.domain("brightness").images(np.array([0]))
    dataset.domain("brightness").images(np.array([0]))  # from the file: nothing to report
    assert steps == [*((done, 3588) for done in range(500, 3588, 500)), (3588, 3588)]


def test_two_at_once_do_not_disturb_each_other(cache: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        domains = list(pool.map(lambda _: few().domain("brightness"), range(2)))
    for domain in domains:
        assert domain.images(np.arange(40)).equal(expected("brightness", 5, 40))
    assert [path.name for path in cache.rglob("*.npy")] == ["brightness-5.npy"]


def test_seeds_do_not_share_files() -> None:
    one, two = digits_c(seed=1, limit=10), digits_c(seed=2, limit=10)
    assert one.folder != two.folder
    positions = np.arange(10)
    assert (
        not one.domain("gaussian_noise")
        .images(positions)
        .equal(two.domain("gaussian_noise").images(positions))
    )
    assert one.provenance["seed"] == "1"


def test_frost_pictures_do_not_share_files_and_change_frost(tmp_path: Path) -> None:
    for name, level in (("dark", 30), ("light", 220)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (300, 300), (level,) * 3).save(tmp_path / name / "frost1.png")
    dark = digits_c(frost=tmp_path / "dark", limit=5)
    light = digits_c(frost=tmp_path / "light", limit=5)
    assert dark.folder != light.folder
    assert dark.domain("frost").pixels.mean() + 10 < light.domain("frost").pixels.mean()
    assert dark.provenance["frost"].startswith("folder, md5 ")


def test_unknown_domains_and_severities_are_answered() -> None:
    with pytest.raises(ValueError, match="did you mean 'fog'"):
        digits_c().domain("fogg")
    with pytest.raises(ValueError, match="severity"):
        digits_c().domain("fog", 6)


def test_a_disk_that_takes_nothing_is_no_reason_to_stop(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="made in memory"):
        pixels = few().domain("contrast").pixels
    assert pixels.shape == (40, 32, 32, 3)
    assert cache.read_text() == "a file where the folder should be"


def test_a_full_disk_is_an_error_before_the_first_image(tmp_path: Path) -> None:
    """Found out later, while writing to the map, it would be a signal that kills the process."""
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from rotta.datasets.generated import new_stack\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: new_stack(Path(sys.argv[1]), (1000, 32, 32, 3))\n"
        "except OSError as error: print('refused', error)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "a.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused"), done.stderr
