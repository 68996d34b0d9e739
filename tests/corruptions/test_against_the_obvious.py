"""Each corruption beside the plainest way to write it down: loops, or a library's own filter."""

import colorsys
import math
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
