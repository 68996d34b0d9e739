"""The built-in digits: same pixels and same split for everyone."""

import hashlib
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits as bundled

from rotta.datasets.digit_views import _moved
from rotta.datasets.digits import load_digits


@pytest.mark.parametrize(
    ("split", "images", "md5"),
    [
        ("train", 900, "1d4beeca9e2ae674c5d6c23fbeb419ec"),
        ("test", 897, "a06be48b7664588c55ea831071dc705c"),
    ],
)
def test_pixels_and_split_are_fixed(split: str, images: int, md5: str) -> None:
    digits = load_digits(split=split)
    clean = digits.domain("clean")
    assert clean.pixels.shape == (images, 32, 32, 3)
    assert hashlib.md5(clean.pixels.tobytes()).hexdigest() == md5
    assert digits.provenance["md5"] == md5


def test_both_halves_hold_every_digit_in_equal_share() -> None:
    train = np.bincount(load_digits(split="train").domain("clean").labels)
    test = np.bincount(load_digits(split="test").domain("clean").labels)
    assert len(train) == len(test) == 10
    assert np.abs(train - test).max() <= 2


def test_halves_together_are_the_bundled_scans_enlarged_bilinearly() -> None:
    scans = torch.from_numpy(bundled().images)[:, None]
    enlarged = torch.nn.functional.interpolate(scans, size=(32, 32), mode="bilinear") * 255 / 16
    expected = (enlarged[:, 0] + 0.5).floor().to(torch.uint8).numpy()
    halves = [
        load_digits(split=split).domain("clean").pixels[..., 0] for split in ("train", "test")
    ]
    assert sorted(image.tobytes() for half in halves for image in half) == (
        sorted(image.tobytes() for image in expected)
    )


def test_images_are_grey_rgb_and_not_to_be_mirrored() -> None:
    digits = load_digits(limit=5)
    images = digits.domain("clean").images(np.arange(5))
    assert images.shape == (5, 3, 32, 32)
    assert images[:, 0].equal(images[:, 1])
    assert images[:, 0].equal(images[:, 2])
    assert not digits.mirrored


def test_limit_takes_the_first() -> None:
    assert load_digits(limit=7).domain("clean").labels.tolist() == (
        load_digits().domain("clean").labels[:7].tolist()
    )


def test_without_scikit_learn_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ModuleNotFoundError, match="pip install scikit-learn"):
        load_digits()


def test_views_are_the_scans_and_then_the_scans_slightly_moved() -> None:
    scans, views = load_digits().domain("clean"), load_digits(views=4).domain("clean")
    pixels = views.pixels.reshape(4, 897, 32, 32, 3)
    assert views.labels.tolist() == scans.labels.tolist() * 4
    assert np.array_equal(pixels[0], scans.pixels)
    assert hashlib.md5(pixels.tobytes()).hexdigest() == "5af51fc71697e81f344b3ebc3e7b7206"
    for view in (1, 2, 3):
        same = (pixels[view] == pixels[0]).all(axis=(1, 2, 3)).mean()
        assert same < 0.02


def test_a_view_is_turned_and_shifted_by_whole_pixels() -> None:
    image = np.zeros((1, 32, 32, 3), np.uint8)
    image[0, 10:14, 20:23] = 200
    moved = _moved(image, np.array([[0, 2, -1]]))
    assert np.array_equal(moved, np.roll(image, (-1, 2), axis=(1, 2)))
    turned = _moved(image, np.array([[10, 0, 0]]))
    picture = Image.fromarray(image[0]).rotate(-10, resample=Image.Resampling.BILINEAR)
    assert np.abs(turned[0].astype(int) - np.asarray(picture).astype(int)).max() <= 2
