"""Random numbers keyed by image: right in distribution, and nobody's business but the image's."""

import torch

from rotta.corruptions.draws import Draws, image_keys


def draws(count: int = 200, seed: int = 0) -> Draws:
    return Draws(image_keys(seed, torch.arange(count), "fog", 5))


def test_keys_differ_in_everything_they_are_made_of() -> None:
    index = torch.arange(1000)
    keys = torch.cat(
        [
            image_keys(seed, index, corruption, severity)
            for seed in (0, 1, -1, 2**64)  # 2**64 wraps around to 0
            for corruption in ("fog", "snow")
            for severity in (1, 5)
        ]
    )
    assert len(set(keys.tolist())) == 3 * 2 * 2 * 1000


def test_uniform_is_uniform() -> None:
    sample = draws().uniform(1000)
    assert sample.min() >= 0
    assert sample.max() < 1
    counts = torch.histc(sample, bins=16, min=0, max=1)
    expected = sample.numel() / 16
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 45  # 15 degrees of freedom: exceeded once in 10,000


def test_neighbouring_images_and_numbers_are_unrelated() -> None:
    sample = draws(400).uniform(400) - 0.5
    scale = 12 / sample.numel() ** 0.5 * 4  # four standard errors of a mean of products
    assert (sample[1:] * sample[:-1]).mean().abs() < scale / 12
    assert (sample[:, 1:] * sample[:, :-1]).mean().abs() < scale / 12


def test_normal_has_the_moments_of_a_normal() -> None:
    sample = draws().normal(5000)
    assert sample.mean().abs() < 0.005
    assert (sample.std() - 1).abs() < 0.005
    assert (sample**4).mean().sub(3).abs() < 0.05
    assert (sample.abs() > 1.959964).float().mean().sub(0.05).abs() < 0.001


def test_below_reaches_every_number_and_no_other() -> None:
    sample = draws(5000).below(torch.tensor(7))
    assert sample.unique().tolist() == list(range(7))  # type: ignore[no-untyped-call]
    bounds = torch.arange(1, 5001)
    assert (draws(5000).below(bounds) < bounds).all()


def test_an_image_has_its_numbers_wherever_it_stands() -> None:
    keys = image_keys(3, torch.arange(50), "snow", 2)
    together, alone = Draws(keys), Draws(keys[17:18])
    for _ in range(3):
        assert torch.equal(together.uniform(3, 5)[17:18], alone.uniform(3, 5))
        assert torch.equal(together.normal(7)[17:18], alone.normal(7))
        assert torch.equal(together.integers32(2)[17:18], alone.integers32(2))
