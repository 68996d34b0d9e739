"""Files of every kind become the images that the network knows."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rotta.datasets.digits import load_digits
from rotta.datasets.domains import fit
from rotta.models import save_weights
from rotta.serve.images import decode_file
from rotta.serve.refusals import Refusal
from rotta.serve.served_model import ServedModel, load_model


@pytest.fixture(scope="module")
def model() -> ServedModel:
    return load_model("digits")


def file_of(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(image: Image.Image, model: ServedModel, kind: str = "PNG") -> torch.Tensor:
    pixels = decode_file(file_of(image, kind), 1, model, 10**6)
    assert (pixels.shape, pixels.dtype) == ((3, 32, 32), torch.uint8)
    return pixels


RAMP = np.arange(32 * 32).reshape(32, 32)


def test_an_image_of_the_right_size_is_taken_bit_by_bit(model: ServedModel) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    assert np.array_equal(decoded(Image.fromarray(pixels), model).permute(1, 2, 0), pixels)


def test_sixteen_bits_are_scaled_and_not_cut(model: ServedModel) -> None:
    deep = (RAMP * 64).astype(np.uint16)
    grey = decoded(Image.fromarray(deep), model)
    assert torch.equal(grey[0], grey[2])
    assert np.abs(grey[0].numpy() - deep / 257).max() <= 0.5
    assert decoded(Image.fromarray(deep[:8, :8]), model).shape == (3, 32, 32)


def test_palettes_grey_and_transparency(model: ServedModel) -> None:
    red = Image.new("RGB", (32, 32), (200, 0, 0))
    transparent = red.copy()
    transparent.putalpha(7)
    palette = red.quantize(4)
    palette.info["transparency"] = 0
    for image in (red, transparent, palette, transparent.quantize(4)):
        assert decoded(image, model)[:, 0, 0].tolist() == [200, 0, 0], image.mode
    assert decoded(Image.new("L", (32, 32), 9), model)[:, 5, 5].tolist() == [9, 9, 9]
    assert decoded(Image.new("LA", (32, 32), (9, 0)), model)[:, 5, 5].tolist() == [9, 9, 9]
    assert decoded(Image.new("1", (32, 32), 1), model)[:, 5, 5].tolist() == [255, 255, 255]


def test_jpegs_in_the_colours_of_print(model: ServedModel) -> None:
    blue = Image.new("RGB", (32, 32), (0, 0, 250)).convert("CMYK")
    assert decoded(blue, model, "JPEG")[2].float().mean() > 200


def test_an_original_scan_becomes_the_datasets_image(model: ServedModel) -> None:
    whole = load_digits().clean.pixels[0]
    small = Image.fromarray(whole[2::4, 2::4])  # near the centres of the 8 × 8
    assert np.abs(decoded(small, model).permute(1, 2, 0).numpy() - whole.astype(int)).mean() < 20


def test_shorter_side_then_centre(model: ServedModel) -> None:
    wide = np.zeros((64, 192, 3), np.uint8)
    wide[:, 64:128] = 255  # the middle third
    assert decoded(Image.fromarray(wide), model)[:, :, 1:-1].min() == 255


def test_other_models_cut_as_their_datasets_do(model: ServedModel) -> None:
    other = ServedModel("other", model.net, model.classes, side=64, whole=False)
    noise = Image.effect_noise((300, 200), 50).convert("RGB")
    pixels = decode_file(file_of(noise), 1, other, 10**6)
    assert np.array_equal(pixels.permute(1, 2, 0), np.asarray(fit(noise, 64)))


def test_a_strip_does_not_become_a_giant(model: ServedModel) -> None:
    strip = Image.new("L", (900_000, 1), 77)
    assert decoded(strip, model).flatten().tolist() == [77] * 3072


def test_pixels_are_counted_before_they_are_decoded(model: ServedModel) -> None:
    with pytest.raises(Refusal, match="more than 1,023 pixels") as refused:
        decode_file(file_of(Image.new("L", (32, 32))), 1, model, 1023)
    assert refused.value.status == 413


def test_a_weight_file_must_say_its_size(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    save_weights(file, load_model("digits").net, {"arch": "wrn-10-1", "dataset": "domains:mine"})
    with pytest.raises(ValueError, match="--image-size"):
        load_model(str(file))
    mine = load_model(str(file), image_size=48)
    assert (mine.side, mine.whole, mine.classes[-1]) == (48, False, "9")
    stated = {"arch": "wrn-10-1", "dataset": "domains:mine", "image_size": "40"}
    save_weights(file, load_model("digits").net, stated)
    assert load_model(str(file)).side == 40
    assert load_model(str(file), image_size=48).side == 48
