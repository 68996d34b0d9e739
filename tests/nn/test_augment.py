"""The strong view, step by step, and group by group."""

import colorsys
import math
from dataclasses import replace

import pytest
import torch

from rotta.nn.augment import (
    StrongView,
    _affine,
    _blur,
    _hue,
    _jitter,
    drawn_strong_views,
    strong_view,
)
from rotta.nn.device_draws import device_generator

CPU = torch.device("cpu")


def view(groups: int = 1, side: int = 32, seed: int = 0) -> StrongView:
    generator = torch.Generator().manual_seed(seed)
    return StrongView.draw(groups, side, side, generator, CPU)


def still(**changes: torch.Tensor) -> StrongView:
    """A view that does nothing but what is asked for."""
    one, zero = torch.ones(1), torch.zeros(1)
    fields = {
        "order": torch.arange(5)[None],
        "brightness": one,
        "contrast": one,
        "saturation": one,
        "hue": zero,
        "gamma": one,
        "angle": zero,
        "shift": torch.zeros(1, 2),
        "scale": one,
        "sigma": torch.full((1,), 1e-3),
        "mirror": torch.zeros(1, dtype=torch.bool),
    }
    return StrongView(**(fields | changes))


def picture() -> torch.Tensor:
    return torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(3))


def test_a_view_that_does_nothing_does_nothing() -> None:
    x = picture()
    assert torch.allclose(strong_view(x, still(), torch.zeros_like(x)), x, atol=1e-5)


def test_groups_are_separate_views() -> None:
    x = torch.rand(6, 3, 32, 32)
    noise = torch.randn_like(x)
    both = view(groups=2)
    together = strong_view(x, both, noise)
    for group, part in enumerate((slice(0, 3), slice(3, 6))):
        alone = both[group : group + 1]
        assert torch.allclose(together[part], strong_view(x[part], alone, noise[part]), atol=1e-6)
    assert not torch.allclose(together[:3], strong_view(x[:3], view(seed=9), noise[:3]), atol=0.01)


def test_results_stay_in_range_and_the_input_stays_as_it_is() -> None:
    x = torch.rand(8, 3, 32, 32)
    before = x.clone()
    y = strong_view(x, view(), torch.randn_like(x))
    assert y.min() >= 0
    assert y.max() <= 1
    assert torch.equal(x, before)


@pytest.mark.parametrize("turn", [-0.06, 0.05, 0.3])
def test_hue_turns_as_in_hsv(turn: float) -> None:
    x = picture()
    turned = _hue(x, torch.full((1, 1, 1, 1), turn))
    for row, column in ((0, 0), (3, 7), (15, 2)):
        h, s, v = colorsys.rgb_to_hsv(*x[0, :, row, column].tolist())
        expected = colorsys.hsv_to_rgb((h + turn) % 1, s, v)
        assert turned[0, :, row, column].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("colour", [(0, 0, 0), (1, 1, 1), (1, 1, 0), (0, 1, 1), (0.7, 0.2, 0.7)])
def test_hue_is_told_where_no_channel_is_the_largest(colour: tuple[float, ...]) -> None:
    x = torch.tensor(colour, dtype=torch.float32).view(1, 3, 1, 1)
    h, s, v = colorsys.rgb_to_hsv(*colour)
    expected = colorsys.hsv_to_rgb((h + 0.05) % 1, s, v)
    turned = _hue(x, torch.full((1, 1, 1, 1), 0.05))
    assert turned.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_colour_steps_come_in_the_drawn_order() -> None:
    x = torch.full((1, 3, 4, 4), 0.4)
    changes = {"brightness": torch.tensor([0.5]), "gamma": torch.tensor([2.0])}
    first_bright = _jitter(x[None], still(**changes))
    first_gamma = _jitter(x[None], still(**changes, order=torch.tensor([[4, 1, 2, 3, 0]])))
    assert first_bright[0, 0, 0, 0, 0].item() == pytest.approx((0.4 * 0.5) ** 2, abs=1e-6)
    assert first_gamma[0, 0, 0, 0, 0].item() == pytest.approx(0.4**2 * 0.5, abs=1e-6)


def test_shifts_are_whole_pixels_to_the_right_and_down() -> None:
    x = picture()
    moved = _affine(x, still(shift=torch.tensor([[2.0, 1.0]])), margin=0)
    assert torch.allclose(moved[..., 1:, 2:], x[..., :-1, :-2], atol=1e-5)
    assert torch.allclose(moved[..., 1:, 0], x[..., :-1, 0], atol=1e-5)  # the edge is repeated


def test_a_quarter_turn_is_a_quarter_turn() -> None:
    x = picture()
    turned = _affine(x, still(angle=torch.tensor([torch.pi / 2])), margin=0)
    assert torch.allclose(turned, x.rot90(-1, (2, 3)), atol=1e-4)


def test_a_mirrored_view_is_the_view_in_a_mirror() -> None:
    x, drawn = torch.rand(4, 3, 16, 16), view(groups=2, side=16)
    plain, mirrored = (
        strong_view(x, replace(drawn, mirror=torch.full((2,), mirror)), torch.zeros_like(x))
        for mirror in (False, True)
    )
    assert torch.allclose(mirrored, plain.flip(-1), atol=1e-6)
    assert not torch.allclose(mirrored, plain, atol=0.01)


def test_blur_keeps_a_flat_picture_and_spreads_a_point() -> None:
    flat = torch.full((1, 3, 12, 12), 0.3)
    assert torch.allclose(_blur(flat, torch.tensor([0.5])), torch.full((1, 3, 8, 8), 0.3))
    point = torch.zeros(1, 3, 9, 9)
    point[..., 4, 4] = 1
    spread = _blur(point, torch.tensor([0.5]))
    assert spread[0, 0, 2, 2] < 1
    assert spread[0, 0, 2, 1] == spread[0, 0, 1, 2] > 0


def test_draws_stay_within_their_ranges() -> None:
    many = view(groups=500)
    assert many.brightness.min() >= 0.6
    assert many.brightness.max() <= 1.4
    assert many.shift.abs().max() <= 4
    assert torch.equal(many.shift, many.shift.round())
    assert 0.4 < many.mirror.float().mean() < 0.6
    assert many.order.sort(dim=1).values.equal(torch.arange(5).expand(500, 5))


@pytest.mark.parametrize("groups", [1, 3])
def test_draws_travel_in_one_piece(groups: int) -> None:
    drawn = view(groups)
    arrived = drawn._on(CPU)
    for name, tensor in vars(drawn).items():
        assert torch.equal(tensor, getattr(arrived, name)), name
        assert tensor.dtype == getattr(arrived, name).dtype


def drawn_one_by_one(
    groups: int, height: int, width: int, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The draws in the order that published results were made with, a call for each."""

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return torch.rand((groups, *shape), generator=generator) * (high - low) + low

    return {
        "order": torch.stack([torch.randperm(5, generator=generator) for _ in range(groups)]),
        "brightness": uniform(0.6, 1.4),
        "contrast": uniform(0.7, 1.3),
        "saturation": uniform(0.5, 1.5),
        "hue": uniform(-0.06, 0.06),
        "gamma": uniform(0.7, 1.3),
        "angle": uniform(-math.pi / 12, math.pi / 12),
        "shift": (uniform(-1.0, 1.0, 2) * torch.tensor([width / 8, height / 8])).round(),
        "scale": uniform(0.9, 1.1),
        "sigma": uniform(0.001, 0.5),
        "mirror": torch.rand(groups, generator=generator) < 0.5,
    }


@pytest.mark.parametrize("groups", [1, 2, 7, 32, 100])
def test_a_seed_keeps_its_draws(groups: int) -> None:
    own, other = (torch.Generator().manual_seed(groups) for _ in range(2))
    drawn = StrongView.draw(groups, 20, 33, own, CPU)
    for name, expected in drawn_one_by_one(groups, 20, 33, other).items():
        assert torch.equal(getattr(drawn, name), expected), name
    assert torch.equal(own.get_state(), other.get_state())


def test_packed_draws_stand_in_the_order_of_the_fields() -> None:
    drawn = view(groups=3)
    fields = drawn.packed(CPU).split_with_sizes([5, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1], dim=1)
    for (name, expected), field in zip(vars(drawn).items(), fields, strict=True):
        assert torch.equal(field, expected.float().view(3, -1)), name


def test_every_view_has_noise_of_its_own_whatever_is_made_at_once() -> None:
    x = torch.rand(2, 3, 8, 8)
    generator = torch.Generator().manual_seed(5)
    drawn = StrongView.draw(3, 8, 8, generator, CPU)
    there = device_generator(generator, CPU)
    expected = [
        strong_view(x, drawn[i : i + 1], torch.randn(x.shape, generator=there)) for i in range(3)
    ]
    for at_once in (1, 2, 3):
        generator.manual_seed(5)
        views = torch.cat(list(drawn_strong_views(x, generator, views=3, at_once=at_once)))
        assert torch.allclose(views, torch.cat(expected), atol=1e-6)
