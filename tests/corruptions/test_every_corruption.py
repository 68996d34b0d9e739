"""What every corruption promises, whatever it does to the picture."""

import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from rotta.corruptions import CORRUPTIONS, corrupt

NAMES = tuple(CORRUPTIONS)


def pictures(count: int, height: int = 32, width: int = 32, seed: int = 0) -> Tensor:
    """Smooth coloured 8-bit images with edges, (B, 3, H, W): noise at two scales, and a box."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 4, 4, generator=generator)
    fine = torch.rand(count, 3, height, width, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic")
    image = 0.85 * smooth + 0.15 * fine
    image[:, 0, height // 4 : height // 2, width // 4 : width // 2] += 0.4
    return (image.clamp(0, 1) * 255).round() / 255


def levels(x: Tensor) -> Tensor:
    return (x * 255).round().to(torch.uint8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_results_are_8_bit_images_of_the_same_kind(name: str, severity: int) -> None:
    x = pictures(4)
    y = corrupt(x, name, severity, seed=0, index=range(4))
    assert y.shape == x.shape
    assert y.dtype is x.dtype
    assert y.min() >= 0
    assert y.max() <= 1
    assert torch.equal(y, levels(y).float() / 255)
    assert not torch.equal(y, x)


@pytest.mark.parametrize("name", NAMES)
def test_the_input_is_not_touched(name: str) -> None:
    x = pictures(3)
    before = x.clone()
    corrupt(x, name, 5, seed=0, index=range(3))
    assert torch.equal(x, before)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [(32, 32), (9, 13), (48, 31)])
def test_an_image_gets_the_same_bytes_in_any_batch(name: str, size: tuple[int, int]) -> None:
    x = pictures(150, *size)
    index = torch.randperm(1000, generator=torch.Generator().manual_seed(1))[:150]
    whole = corrupt(x, name, 3, seed=7, index=index)
    cuts = [0, 1, 4, 71, 150]
    for start, stop in pairwise(cuts):
        part = corrupt(x[start:stop], name, 3, seed=7, index=index[start:stop])
        assert torch.equal(part, whole[start:stop])
    backwards = corrupt(x.flip(0), name, 3, seed=7, index=index.flip(0))
    assert torch.equal(backwards.flip(0), whole)


@pytest.mark.parametrize("name", NAMES)
def test_threads_and_autocast_do_not_matter(name: str) -> None:
    x = pictures(3, 97, 120)  # more than PyTorch gives to one thread
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=threads == 2):
                results.append(corrupt(x, name, 4, seed=0, index=range(3)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_numpys_whole_numbers_are_whole_numbers() -> None:
    x = pictures(2)
    plain = corrupt(x, "fog", 5, seed=3, index=[0, 1])
    severity, seed = np.int64(5), np.int64(3)
    assert torch.equal(plain, corrupt(x, "fog", severity, seed=seed, index=np.array([0, 1])))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_memory_layout_does_not_matter(name: str) -> None:
    x = pictures(5)
    plain = corrupt(x, name, 4, seed=0, index=range(5))
    last = corrupt(x.to(memory_format=torch.channels_last), name, 4, seed=0, index=range(5))
    assert torch.equal(plain, last)


RANDOM = {"gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "motion_blur"}
RANDOM |= {"snow", "frost", "fog", "elastic_transform"}


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_seed_and_index_change_the_draw(name: str) -> None:
    x = pictures(1)
    base = corrupt(x, name, 5, seed=0, index=[0])
    assert not torch.equal(base, corrupt(x, name, 5, seed=1, index=[0]))
    assert not torch.equal(base, corrupt(x, name, 5, seed=0, index=[1]))
    assert torch.equal(base, corrupt(x, name, 5, seed=0, index=[0]))


@pytest.mark.parametrize("name", sorted(set(NAMES) - RANDOM))
def test_the_others_draw_nothing(name: str) -> None:
    x = pictures(1)
    a = corrupt(x, name, 5, seed=0, index=[0])
    assert torch.equal(a, corrupt(x, name, 5, seed=1, index=[9]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "size", [(8, 8), (8, 512), (512, 8), (64, 300), (33, 47), (224, 224), (512, 512)]
)
def test_any_size_from_8_to_512(name: str, size: tuple[int, int]) -> None:
    y = corrupt(pictures(1, *size), name, 5, seed=0, index=[0])
    assert y.shape == (1, 3, *size)
    assert y.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_larger_picture_is_hurt_alike(name: str) -> None:
    """Lengths scale with the side: the mean change at 128 pixels is of the size of that at 32."""
    small = pictures(12, 32, 32)
    large = torch.nn.functional.interpolate(small, scale_factor=4, mode="bicubic").clamp(0, 1)
    large = (large * 255).round() / 255
    index = range(12)
    change_small = (corrupt(small, name, 5, seed=0, index=index) - small).abs().mean()
    change_large = (corrupt(large, name, 5, seed=0, index=index) - large).abs().mean()
    # compression, and blur of what little detail an enlargement has, hurt it less
    low = 0.1 if name in ("jpeg_compression", "pixelate", "defocus_blur") else 0.4
    assert low < change_large / change_small < 1.7


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_flat_pictures_are_no_special_case(name: str, value: float) -> None:
    x = torch.full((2, 3, 32, 32), value)
    assert corrupt(x, name, 5, seed=0, index=[0, 1]).isfinite().all()


@pytest.mark.parametrize("name", ["defocus_blur", "zoom_blur", "motion_blur", "glass_blur"])
@pytest.mark.parametrize("level", [0, 1, 77, 128, 200, 254, 255])
def test_blurring_a_flat_picture_leaves_it_to_the_last_level(name: str, level: int) -> None:
    x = torch.full((1, 3, 32, 32), level / 255)
    y = corrupt(x, name, 5, seed=0, index=[0])
    assert set(levels(y).flatten().tolist()) == {level}


def test_an_empty_batch_stays_empty() -> None:
    for name in NAMES:
        y = corrupt(torch.zeros(0, 3, 32, 32), name, 5, seed=0, index=[])
        assert y.shape == (0, 3, 32, 32)


@given(seed=st.integers(-(2**70), 2**70), index=st.integers(0, 2**62))
@settings(max_examples=30)
def test_any_seed_and_index_will_do(seed: int, index: int) -> None:
    y = corrupt(pictures(1), "snow", 5, seed=seed, index=[index])
    assert y.isfinite().all()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda x: corrupt(x, "fogg", 5, seed=0, index=[0]), "did you mean 'fog'"),
        (lambda x: corrupt(x, "fog", 6, seed=0, index=[0]), "severity must be 1, 2, 3, 4 or 5"),
        (lambda x: corrupt(x, "fog", 0, seed=0, index=[0]), "severity must be"),
        (lambda x: corrupt(x, "fog", 5.0, seed=0, index=[0]), "severity must be"),  # type: ignore[arg-type]
        (lambda x: corrupt(x, "fog", True, seed=0, index=[0]), "severity must be"),
        (lambda x: corrupt(x, "fog", 5, seed=0, index=[0, 1]), "index shape"),
        (lambda x: corrupt(x, "fog", 5, seed=0, index=torch.tensor([0.5])), "whole numbers"),
        (lambda x: corrupt(x * 255, "fog", 5, seed=0, index=[0]), "divide 8-bit ones by 255"),
        (lambda x: corrupt(x - 1, "fog", 5, seed=0, index=[0]), r"\[0, 1\]"),
        (lambda x: corrupt(x * torch.nan, "fog", 5, seed=0, index=[0]), r"\[0, 1\]"),
        (lambda x: corrupt(levels(x), "fog", 5, seed=0, index=[0]), "floating point"),
        (lambda x: corrupt(x[:, :1], "fog", 5, seed=0, index=[0]), "3 channels"),
        (lambda x: corrupt(x[0], "fog", 5, seed=0, index=[0]), r"shape \(B, 3, H, W\)"),
        (lambda x: corrupt(x[..., :7], "fog", 5, seed=0, index=[0]), "8 to 512 pixels"),
    ],
)
def test_mistakes_get_an_answer(break_it: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        break_it(pictures(1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_makes_the_same_picture(name: str) -> None:
    x = pictures(64)
    there = corrupt(x.cuda(), name, 5, seed=0, index=range(64)).cpu()
    assert torch.equal(there, levels(there).float() / 255)
    assert torch.equal(
        there[9:20], corrupt(x[9:20].cuda(), name, 5, seed=0, index=range(9, 20)).cpu()
    )
    on_cpu = levels(corrupt(x, name, 5, seed=0, index=range(64))).int()
    on_gpu = levels(there).int()
    assert (on_cpu - on_gpu).abs().max() <= 1
    assert (on_cpu != on_gpu).float().mean() < 1e-3


def test_jpeg_is_pillows_to_the_last_bit() -> None:
    for quality, severity in ((80, 1), (58, 3), (40, 5)):
        for size in ((32, 32), (33, 50), (8, 9), (64, 40)):
            x = pictures(6, *size)
            ours = levels(corrupt(x, "jpeg_compression", severity, seed=0, index=range(6)))
            for image, result in zip(levels(x), ours, strict=True):
                file = io.BytesIO()
                Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
                theirs = np.array(Image.open(file))
                assert np.array_equal(result.permute(1, 2, 0).numpy(), theirs)


def test_pixelate_is_pillows_to_the_last_bit() -> None:
    for share, severity in ((0.95, 1), (0.85, 3), (0.65, 5)):
        for height, width in ((32, 32), (33, 50), (8, 9)):
            x = pictures(4, height, width)
            ours = levels(corrupt(x, "pixelate", severity, seed=0, index=range(4)))
            small = int(width * share), int(height * share)
            for image, result in zip(levels(x), ours, strict=True):
                picture = Image.fromarray(image.permute(1, 2, 0).numpy())
                picture = picture.resize(small, Image.Resampling.BOX)
                picture = picture.resize((width, height), Image.Resampling.BOX)
                assert np.array_equal(result.permute(1, 2, 0).numpy(), np.array(picture))


def test_each_name_is_a_function_of_the_module() -> None:
    import rotta.corruptions as module

    for name, function in CORRUPTIONS.items():
        assert getattr(module, name) is function
        assert function.__doc__
        assert Path(module.__file__).parent.name == "corruptions"
