import torch

from rotta.models.crops import random_crops


def _reference(x: torch.Tensor, dy: int, dx: int, mirrored: bool) -> torch.Tensor:
    """Shift one image, (C, H, W), pixel by pixel; zeros come in."""
    _, height, width = x.shape
    out = torch.zeros_like(x)
    for i in range(height):
        for j in range(width):
            if 0 <= i + dy < height and 0 <= j + dx < width:
                out[:, i, j] = x[:, i + dy, j + dx]
    return out.flip(2) if mirrored else out


def test_every_crop_is_a_shift_of_its_own_image() -> None:
    x = torch.rand(12, 3, 16, 24, generator=torch.Generator().manual_seed(0)) + 0.1
    out = random_crops(x, torch.Generator().manual_seed(1), mirror=True)
    found = []
    for image, crop in zip(x, out, strict=True):
        found += [
            (dy, dx, mirrored)
            for dy in range(-2, 3)
            for dx in range(-3, 4)
            for mirrored in (False, True)
            if torch.equal(_reference(image, dy, dx, mirrored), crop)
        ]
    assert len(found) == len(x)
    assert len(set(found)) > 6
    assert {mirrored for *_, mirrored in found} == {False, True}


def test_without_mirror_nothing_is_mirrored() -> None:
    ramp = torch.arange(1.0, 17).expand(64, 1, 16, 16)
    out = random_crops(ramp, torch.Generator().manual_seed(0), mirror=False)
    assert (out[:, 0, 8, 8] > out[:, 0, 8, 7]).all()


def test_the_whole_range_of_shifts_is_drawn_and_the_seed_decides() -> None:
    x = torch.zeros(2000, 1, 16, 16)
    x[:, :, 8, 8] = 1
    out = random_crops(x, torch.Generator().manual_seed(0), mirror=False)
    where = out[:, 0].nonzero()[:, 1:]
    assert where.amin(0).tolist() == [6, 6]
    assert where.amax(0).tolist() == [10, 10]
    assert torch.equal(out, random_crops(x, torch.Generator().manual_seed(0), mirror=False))
