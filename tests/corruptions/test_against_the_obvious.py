"""Each corruption beside the plainest way to write it down: loops, or a library's own filter."""

import colorsys
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage, stats

from rotta.corruptions import corrupt, load_textures
from rotta.corruptions.blur import _copy_neighbours
from rotta.corruptions.digital import _random_affine, _smooth_displacements
from rotta.corruptions.draws import Draws, image_keys
from rotta.corruptions.noise import gaussian_channel, impulse_channel, shot_channel
from rotta.corruptions.resample import motion_blur_along
from rotta.corruptions.weather import _diamond_square

Picture = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]


def picture(height: int = 32, width: int = 32) -> torch.Tensor:
    """One smooth picture as levels, (1, 3, H, W)."""
    generator = torch.Generator().manual_seed(5)
    coarse = torch.rand(1, 3, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic")
    fine = torch.rand(1, 3, height, width, generator=generator) * 0.2
    return ((0.8 * smooth + fine).clamp(0, 1) * 255).round()


def levels(name: str, severity: int, x: torch.Tensor) -> torch.Tensor:
    y = corrupt(x / 255, name, severity, seed=0, index=range(len(x)))
    return (y * 255).round()


def draws(count: int = 1) -> Draws:
    return Draws(image_keys(0, torch.arange(count), "test", 5))


@pytest.mark.parametrize("channel", [gaussian_channel, shot_channel, impulse_channel])
@pytest.mark.parametrize("severity", [1, 5])
def test_channels_are_distributions(channel, severity) -> None:  # type: ignore[no-untyped-def]
    table = channel(severity)
    assert table.shape == (256, 256)
    assert table.min() >= 0
    assert np.allclose(table.sum(axis=1), 1)


def test_gaussian_noise_is_gaussian() -> None:
    noisy = levels("gaussian_noise", 5, torch.full((40, 3, 32, 32), 128.0))
    plain = np.floor(np.clip(128 + stats.norm.rvs(0, 25.5, 200_000, random_state=0), 0, 255))
    assert abs(noisy.mean() - plain.mean()) < 0.3
    assert abs(noisy.std() - plain.std()) < 0.3
    assert stats.ks_2samp(noisy.flatten().numpy()[::3], plain).pvalue > 1e-3


@pytest.mark.parametrize(("level", "severity", "photons"), [(40, 5, 50), (200, 3, 100)])
def test_shot_noise_counts_photons(level: int, severity: int, photons: int) -> None:
    noisy = levels("shot_noise", severity, torch.full((40, 3, 32, 32), float(level)))
    count = stats.poisson.rvs(level / 255 * photons, size=200_000, random_state=0)
    plain = np.floor(255 * np.minimum(count / photons, 1))
    assert abs(noisy.mean() - plain.mean()) < 0.5
    assert abs(noisy.std() - plain.std()) < 0.5
    assert set(noisy.flatten().tolist()) <= {float(255 * k // photons) for k in range(photons + 1)}


def test_impulse_noise_hits_its_share_of_values_half_and_half() -> None:
    noisy = levels("impulse_noise", 5, torch.full((100, 3, 32, 32), 100.0))
    assert (noisy == 255).float().mean() == pytest.approx(0.035, abs=0.002)
    assert (noisy == 0).float().mean() == pytest.approx(0.035, abs=0.002)
    channels_together = ((noisy != 100).sum(1) == 3).float().mean()
    assert channels_together < 0.002  # on its own each, so all three hardly ever


@pytest.mark.parametrize(
    ("severity", "radius", "sigma"), [(3, 0.5, 0.6), (4, 1, 0.2), (5, 1.5, 0.1)]
)
def test_defocus_is_a_convolution_with_a_soft_disk(
    severity: int, radius: float, sigma: float
) -> None:
    grid = np.arange(-8, 9)
    disk = (grid[:, None] ** 2 + grid**2 <= radius**2).astype(float)
    taps = np.exp(-0.5 * (np.array([-1, 0, 1]) / sigma) ** 2)
    soft = ndimage.convolve(disk / disk.sum(), np.outer(taps, taps) / taps.sum() ** 2)
    x = picture()
    plain = np.stack([ndimage.convolve(c, soft, mode="mirror") for c in x[0].double().numpy()])
    assert (
        np.abs(levels("defocus_blur", severity, x)[0].numpy() - np.floor(plain + 1e-3)).max() <= 1
    )


def test_copying_all_at_once_is_the_published_scan() -> None:
    """From the bottom right, each pixel takes the value of a neighbour above or to the left."""
    x = picture()
    fast = _copy_neighbours(x, 1, draws())
    word = draws().integers32(30, 30)[0]
    slow = x[0].clone()
    for row in range(31, 1, -1):
        for column in range(31, 1, -1):
            bits = int(word[row - 2, column - 2])
            down = ((bits & 0xFFFF) * 2 >> 16) - 1
            right = ((bits >> 16 & 0xFFFF) * 2 >> 16) - 1
            slow[:, row, column] = slow[:, row + down, column + right]
    assert torch.equal(fast[0], slow)


@pytest.mark.parametrize("angle", [-130.0, -44.0, 0.0, 13.7, 45.0])
def test_motion_blur_adds_up_a_trail(angle: float) -> None:
    x = picture(20, 24)
    weights = np.exp(-(np.arange(19) ** 2) / (2 * 2.5**2))
    weights /= weights.sum()
    plain = np.zeros((3, 20, 24))
    for i, weight in enumerate(weights):
        down = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        right = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows = np.clip(np.arange(20) + down, 0, 19)
        columns = np.clip(np.arange(24) + right, 0, 23)
        plain += weight * x[0].numpy()[:, rows[:, None], columns]
    fast = motion_blur_along(x, torch.tensor([angle]), radius=9, sigma=2.5)
    assert np.abs(fast[0].numpy() - np.floor(plain + 1e-3)).max() <= 1
    assert np.mean(fast[0].numpy() != np.floor(plain + 1e-3)) < 0.01


@pytest.mark.parametrize(("severity", "last"), [(1, 1.07), (5, 1.26)])
@pytest.mark.parametrize("side", [32, 45])
def test_zoom_blur_is_the_mean_of_zooms(severity: int, last: float, side: int) -> None:
    x = picture(side, side)
    image = x[0].double().numpy()
    factors = np.arange(1, last - 0.005, 0.01)
    total = image.copy()
    for factor in factors:
        kept = math.ceil(side / factor)
        start = (side - kept) // 2
        centre = image[:, start : start + kept, start : start + kept]
        grown = ndimage.zoom(centre, (1, factor, factor), order=1)
        trim = (grown.shape[1] - side) // 2
        total += grown[:, trim : trim + side, trim : trim + side]
    plain = np.floor(total / (len(factors) + 1) + 1e-3)
    ours = levels("zoom_blur", severity, x)[0].numpy()
    assert np.abs(ours - plain).max() <= 1
    assert np.mean(ours != plain) < 0.01


def test_clouds_are_diamond_squares() -> None:
    """The same draws in the same order, square by square and diamond by diamond."""
    side, decay = 8, 1.75
    fast = _diamond_square(side, decay, draws())[0]
    numbers = draws()
    cloud = np.zeros((side, side))
    step, swell = side, 100.0
    while step >= 2:
        half, count = step // 2, side // step

        def jitter(count: int = count, swell: float = swell) -> Picture:
            drawn = numbers.uniform(count, count, low=-swell, high=swell)[0].double().numpy()
            return drawn * swell

        noise = jitter()
        for i in range(count):
            for j in range(count):
                corners = [
                    cloud[(i + a) % count * step, (j + b) % count * step]
                    for a in (0, 1)
                    for b in (0, 1)
                ]
                cloud[i * step + half, j * step + half] = sum(corners) / 4 + noise[i, j]
        for rows_first in (True, False):
            noise = jitter()
            for i in range(count):
                for j in range(count):
                    row = i * step + (0 if rows_first else half)
                    column = j * step + (half if rows_first else 0)
                    around = [(half, 0), (-half, 0), (0, half), (0, -half)]
                    near = [cloud[(row + a) % side, (column + b) % side] for a, b in around]
                    cloud[row, column] = sum(near) / 4 + noise[i, j]
        step, swell = half, swell / decay
    cloud -= cloud.min()
    assert np.allclose(fast.numpy(), cloud / cloud.max(), atol=1e-4)


def test_fog_keeps_the_brightest_value_within_reach() -> None:
    x = picture()
    y = levels("fog", 5, x)
    assert y.max() <= x.max()
    assert y.min() >= torch.floor(x.min() * x.max() / (x.max() + 1.5 * 255))


def test_brightness_raises_v_of_hsv() -> None:
    x = picture(9, 9)
    x[..., 0, 0] = 0  # black has no hue
    y = levels("brightness", 5, x)
    for row in range(9):
        for column in range(9):
            h, s, v = colorsys.rgb_to_hsv(*(x[0, :, row, column] / 255).tolist())
            plain = np.floor(np.array(colorsys.hsv_to_rgb(h, s, min(1, v + 0.3))) * 255 + 1e-3)
            assert np.abs(y[0, :, row, column].numpy() - plain).max() <= 1


def test_contrast_shrinks_around_each_channels_mean() -> None:
    x = picture()
    mean = x.double().mean((2, 3), keepdim=True)
    plain = torch.floor((x - mean) * 0.15 + mean + 1e-3)
    assert (levels("contrast", 5, x) - plain).abs().max() <= 1


def test_the_affine_map_takes_moved_corners_back() -> None:
    maps = _random_affine(32, 32, 3.2, draws(20))
    corners = torch.tensor([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]])
    moved = corners + draws(20).uniform(3, 2, low=-3.2, high=3.2)
    for coordinate, from_map in enumerate(maps):
        origin = from_map[:, 0, 0, None]
        per_column, per_row = from_map[:, 0, 1, None] - origin, from_map[:, 1, 0, None] - origin
        found = origin + moved[..., 0] * per_column + moved[..., 1] * per_row
        assert torch.allclose(found, corners[:, coordinate].expand(20, 3), atol=1e-3)
        far = origin + 31 * (per_column + per_row)
        assert torch.allclose(from_map[:, 31, 31, None], far, atol=1e-3)


@pytest.mark.parametrize("sigma", [0.96, 6.4])
def test_displacements_are_smoothed_noise(sigma: float) -> None:
    smooth = _smooth_displacements(32, 20, sigma, draws())[0]
    noise = draws().uniform(2, 32, 20, low=-1.0, high=1.0)[0].double().numpy()
    for ours, rough in zip(smooth, noise, strict=True):
        plain = ndimage.gaussian_filter(rough, sigma, mode="reflect", truncate=3)
        assert np.allclose(ours.numpy(), plain, atol=1e-6)


def test_elastic_severity_one_is_the_affine_map_alone() -> None:
    x = picture()
    column, row = _random_affine(
        32, 32, 32 * 0.08, Draws(image_keys(0, torch.tensor([0]), "elastic_transform", 1))
    )
    plain = [
        ndimage.map_coordinates(c, [row[0].numpy(), column[0].numpy()], order=1, mode="mirror")
        for c in x[0].numpy()
    ]
    ours = levels("elastic_transform", 1, x)[0].numpy()
    assert np.abs(ours - np.floor(np.stack(plain) + 1e-3)).max() <= 1


def test_frost_lays_a_crop_of_a_given_picture_over_the_image(tmp_path: Path) -> None:
    ramp = np.arange(300 * 400 * 3, dtype=np.uint32).reshape(300, 400, 3) % 251
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "ice.png")
    textures = load_textures(tmp_path)
    assert textures.origin == "folder"
    x = torch.zeros(3, 3, 32, 32)
    y = corrupt(x, "frost", 5, seed=0, index=range(3), textures=textures)
    reduced = ramp[2::5, 2::5].transpose(2, 0, 1)  # 0.2 without antialiasing: every fifth pixel
    crops = np.lib.stride_tricks.sliding_window_view(reduced, (32, 32), axis=(1, 2))
    shaded = np.floor(crops * 0.45 + 1e-3).astype(int)
    for image in (y * 255).round().int().numpy():
        matches = (shaded == image[:, None, None]).all(axis=(0, 3, 4))
        assert matches.any()


def test_frost_textures_come_from_where_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    fallback = load_textures()
    assert fallback.origin in {"imagecorruptions", "procedural"}
    home = tmp_path / "home" / "data" / "frost"
    home.mkdir(parents=True)
    Image.new("RGB", (300, 250), (9, 9, 9)).save(home / "frost1.png")
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    assert load_textures().origin == "rotta-home"
    package = tmp_path / "site" / "imagecorruptions"
    (package / "frost").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    Image.new("RGB", (300, 250), (7, 7, 7)).save(package / "frost" / "frost1.png")
    monkeypatch.delenv("ROTTA_HOME")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert load_textures().origin == "imagecorruptions"


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no pictures of frost"):
        load_textures(tmp_path)
    Image.new("RGB", (50, 50)).save(tmp_path / "small.png")
    with pytest.raises(ValueError, match="at least 200 pixels"):
        load_textures(tmp_path)
    (tmp_path / "small.png").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"small\.png"):
        load_textures(tmp_path)


def drawn_by(name: str, severity: int) -> Draws:
    """The numbers that image 0 gets under seed 0."""
    return Draws(image_keys(0, torch.tensor([0]), name, severity))


@pytest.mark.parametrize(
    ("severity", "radius", "sigma"),
    [(1, 6, 1.0), (2, 6, 1.5), (3, 6, 2.0), (4, 8, 2.0), (5, 9, 2.5)],
)
def test_motion_blur_as_a_whole(severity: int, radius: int, sigma: float) -> None:
    x = picture()
    angle = float(drawn_by("motion_blur", severity).uniform(low=-45.0, high=45.0))
    plain = plain_trail(x[0].double().numpy(), angle, radius, sigma)
    assert np.mean(levels("motion_blur", severity, x)[0].numpy() != plain) < 0.01


def plain_trail(image: Picture, angle: float, radius: int, sigma: float) -> Picture:
    """Edge pixels repeated, whole-pixel offsets, one-sided weights; whole levels come out."""
    taps = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2 * sigma**2))
    total = np.zeros_like(image)
    height, width = image.shape[-2:]
    for i, weight in enumerate(taps / taps.sum()):
        down = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
        right = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
        rows = np.clip(np.arange(height) + down, 0, height - 1)
        columns = np.clip(np.arange(width) + right, 0, width - 1)
        total += weight * image[..., rows[:, None], columns]
    return np.floor(total + 1e-3)


@pytest.mark.parametrize(
    ("severity", "sigma", "rounds"),
    [(1, 0.05, 1), (2, 0.25, 1), (3, 0.4, 1), (4, 0.25, 2), (5, 0.4, 2)],
)
def test_glass_blur_as_a_whole(severity: int, sigma: float, rounds: int) -> None:
    x = picture()
    numbers = drawn_by("glass_blur", severity)

    def blur(image: Picture) -> Picture:
        smooth = (ndimage.gaussian_filter(c, sigma, mode="nearest", truncate=4) for c in image)
        return np.stack(list(smooth))

    image = np.floor(blur(x[0].double().numpy()) + 1e-3)
    for _ in range(rounds):
        word = numbers.integers32(30, 30)[0].numpy()
        for row in range(31, 1, -1):
            for column in range(31, 1, -1):
                bits = int(word[row - 2, column - 2])
                down = ((bits & 0xFFFF) * 2 >> 16) - 1
                right = ((bits >> 16 & 0xFFFF) * 2 >> 16) - 1
                image[:, row, column] = image[:, row + down, column + right]
    plain = np.floor(blur(image) + 1e-3)
    ours = levels("glass_blur", severity, x)[0].numpy()
    assert np.mean(ours != plain) < 0.01


SNOW = [
    (1, 0.10, 0.2, 1.00, 0.60, 8, 3, 0.95),
    (2, 0.10, 0.2, 1.00, 0.50, 10, 4, 0.90),
    (3, 0.15, 0.3, 1.75, 0.55, 10, 4, 0.90),
    (4, 0.25, 0.3, 2.25, 0.60, 12, 6, 0.85),
    (5, 0.30, 0.3, 1.25, 0.65, 14, 12, 0.80),
]


@pytest.mark.parametrize(
    ("severity", "mean", "sigma", "zoom", "threshold", "radius", "blur", "blend"), SNOW
)
def test_snow_as_a_whole(
    severity: int,
    mean: float,
    sigma: float,
    zoom: float,
    threshold: float,
    radius: int,
    blur: int,
    blend: float,
) -> None:
    x = picture()
    numbers = drawn_by("snow", severity)
    flakes = numbers.normal(1, 32, 32)[0, 0].double().numpy() * sigma + mean
    kept = math.ceil(32 / zoom)
    start = (32 - kept) // 2
    grown = ndimage.zoom(flakes[start : start + kept, start : start + kept], zoom, order=1)
    trim = (len(grown) - 32) // 2
    flakes = grown[trim : trim + 32, trim : trim + 32]
    flakes[flakes < threshold] = 0
    flakes = np.floor(np.clip(flakes, 0, 1) * 255 + 1e-3)
    angle = float(numbers.uniform(low=-135.0, high=-45.0))
    flakes = plain_trail(flakes[None], angle, radius, blur)[0]
    image = x[0].double().numpy()
    grey = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
    scene = blend * image + (1 - blend) * np.maximum(image, 1.5 * grey + 127.5)
    plain = np.floor(np.clip(scene + flakes + np.rot90(flakes, 2), 0, 255) + 1e-3)
    ours = levels("snow", severity, x)[0].numpy()
    assert np.mean(np.abs(ours - plain) > 1) < 0.002
    assert np.mean(ours != plain) < 0.02


ELASTIC = [(2, 0.05, 0.2, 0.07), (3, 0.08, 0.06, 0.06), (4, 0.1, 0.04, 0.05), (5, 0.1, 0.03, 0.03)]


@pytest.mark.parametrize(("severity", "alpha", "sigma", "affine"), ELASTIC)
def test_elastic_as_a_whole(severity: int, alpha: float, sigma: float, affine: float) -> None:
    x = picture()
    numbers = drawn_by("elastic_transform", severity)
    column, row = _random_affine(32, 32, 32 * affine, numbers)
    warped = [
        ndimage.map_coordinates(c, [row[0].numpy(), column[0].numpy()], order=1, mode="mirror")
        for c in x[0].double().numpy()
    ]
    noise = numbers.uniform(2, 32, 32, low=-1.0, high=1.0)[0].double().numpy()
    right, down = (
        ndimage.gaussian_filter(n, 32 * sigma, mode="reflect", truncate=3) * 32 * alpha
        for n in noise
    )
    places = [np.arange(32)[:, None] + down, np.arange(32) + right]
    plain = [ndimage.map_coordinates(c, places, order=1, mode="reflect") for c in warped]
    ours = levels("elastic_transform", severity, x)[0].numpy()
    difference = np.abs(ours - np.floor(np.clip(np.stack(plain), 0, 255) + 1e-3))
    assert difference.max() <= 1
    assert difference.mean() < 0.02


@pytest.mark.parametrize(
    ("severity", "weight", "decay"),
    [(1, 0.2, 3), (2, 0.5, 3), (3, 0.75, 2.5), (4, 1, 2), (5, 1.5, 1.75)],
)
def test_fog_as_a_whole(severity: int, weight: float, decay: float) -> None:
    x = picture()
    cloud = _diamond_square(32, decay, drawn_by("fog", severity)).double()
    brightest = x.max().double() / 255
    plain = (x.double() / 255 + weight * cloud) * brightest / (brightest + weight)
    assert (
        levels("fog", severity, x) - torch.floor(plain.clip(0, 1) * 255 + 1e-3)
    ).abs().max() <= 1


@pytest.mark.parametrize(
    ("severity", "weight", "ice"),
    [(1, 1, 0.2), (2, 1, 0.3), (3, 0.9, 0.4), (4, 0.85, 0.4), (5, 0.75, 0.45)],
)
def test_frost_weighs_image_and_ice(
    severity: int, weight: float, ice: float, tmp_path: Path
) -> None:
    Image.new("RGB", (300, 250), (200, 100, 50)).save(tmp_path / "ice.png")
    x = picture()
    y = corrupt(x / 255, "frost", severity, seed=0, index=[0], textures=load_textures(tmp_path))
    colour = torch.tensor([200.0, 100.0, 50.0]).view(1, 3, 1, 1)
    plain = torch.floor((weight * x + ice * colour).clip(0, 255) + 1e-3)
    assert ((y * 255).round() - plain).abs().max() <= 1


def test_frost_draws_from_the_first_five_pictures(tmp_path: Path) -> None:
    for number in range(7):
        Image.new("RGB", (300, 250), (30 * number,) * 3).save(tmp_path / f"frost{number}.png")
    x = torch.zeros(300, 3, 32, 32)
    y = corrupt(x, "frost", 5, seed=0, index=range(300), textures=load_textures(tmp_path))
    seen = set((y[:, 0, 0, 0] * 255).round().int().tolist())
    assert seen == {int(0.45 * 30 * number) for number in range(5)}


CONSTANTS = {
    "gaussian": (gaussian_channel, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "impulse": (impulse_channel, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "shot": (shot_channel, (500, 250, 100, 75, 50)),
}


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
def test_noise_has_the_stated_strength(severity: int) -> None:
    levels_out = np.arange(256)
    gaussian, sigma = (
        CONSTANTS["gaussian"][0](severity)[128],
        CONSTANTS["gaussian"][1][severity - 1],
    )
    mean = gaussian @ levels_out
    assert np.sqrt(gaussian @ (levels_out - mean) ** 2) == pytest.approx(255 * sigma, rel=0.02)
    impulse = CONSTANTS["impulse"][0](severity)[128]
    assert impulse[0] == impulse[255] == pytest.approx(CONSTANTS["impulse"][1][severity - 1] / 2)
    shot, photons = CONSTANTS["shot"][0](severity)[100], CONSTANTS["shot"][1][severity - 1]
    spread = np.sqrt(shot @ (levels_out - shot @ levels_out) ** 2)
    assert spread == pytest.approx(255 * np.sqrt(100 / 255 / photons), rel=0.03)


@pytest.mark.parametrize(("severity", "gain"), [(1, 0.05), (2, 0.1), (3, 0.15), (4, 0.2), (5, 0.3)])
def test_brightness_adds_its_constant_to_grey(severity: int, gain: float) -> None:
    grey = levels("brightness", severity, torch.full((1, 3, 32, 32), 100.0))
    assert set(grey.flatten().tolist()) == {math.floor(100 + 255 * gain + 1e-3)}


@pytest.mark.parametrize(
    ("severity", "factor"), [(1, 0.75), (2, 0.5), (3, 0.4), (4, 0.3), (5, 0.15)]
)
def test_contrast_keeps_its_share_of_the_spread(severity: int, factor: float) -> None:
    x = picture()
    spread = levels("contrast", severity, x).std() / x.std()
    assert spread == pytest.approx(factor, rel=0.06)


@pytest.mark.skipif(shutil.which("convert") is None, reason="needs ImageMagick's convert")
def test_motion_blur_is_imagemagicks(tmp_path: Path) -> None:
    image = picture()[0].byte().permute(1, 2, 0).numpy()
    Image.fromarray(image).save(tmp_path / "a.png")
    for angle in (-40.0, 10.0, -100.0):
        words = ["convert", "a.png", "-motion-blur", f"9x2.5{angle:+}", "b.png"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("this convert does not do motion blur")
        theirs = np.array(Image.open(tmp_path / "b.png").convert("RGB")).transpose(2, 0, 1)
        ours = motion_blur_along(picture(), torch.tensor([angle]), 9, 2.5)[0].numpy()
        assert np.abs(ours - theirs).max() <= 1
        assert np.mean(ours != theirs) < 0.01
