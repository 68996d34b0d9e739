"""Images that show nothing are told from pictures, and are not learnt from under a guard."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import rotta
from rotta.adapters import METHODS
from rotta.guard import shows_something
from rotta.guard.guard import BLIND_AFTER

every_method = pytest.mark.parametrize("name", METHODS)
BATCH = 16


def noise(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def pictures(count: int, seed: int = 0) -> Tensor:
    """Coarse spots under some noise."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    spots = F.interpolate(coarse, scale_factor=4, mode="bilinear")
    return (spots + 0.05 * torch.randn(spots.shape, generator=generator)).clamp(0, 1)


def guarded(name: str, **options: Any) -> rotta.Adapter:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net = nn.Sequential(*layers, nn.Linear(4, 10))
    own = METHODS[name].__init__.__kwdefaults__ or {}
    small = {"update_every": BATCH, "capacity": BATCH, "passes": 2}
    fitting = {option: value for option, value in small.items() if option in own}
    return rotta.adapt(net, name, num_classes=10, guard=True, **fitting, **options)


def learnt(model: rotta.Adapter) -> list[Tensor]:
    """All that adapting may change, but for what guards note."""
    state = {key: value for key, value in model.state_dict().items() if isinstance(value, Tensor)}
    return copy.deepcopy(list(state.values()))


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("levels", [(0.0, 0.0, 0.0), (-2.0, 0.0, 9.0)])
def test_noise_is_told_from_pictures_whatever_their_channels_mean(
    levels: tuple[float, float, float],
) -> None:
    level = torch.tensor(levels).view(3, 1, 1)
    assert not shows_something(noise(500) + level).any()
    gaussian = torch.randn(500, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert not shows_something(4 * gaussian + level).any()
    assert shows_something(pictures(500) + level).all()


def test_a_single_colour_shows_nothing() -> None:
    colours = torch.rand(5, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    assert not shows_something(colours.expand(5, 3, 32, 32)).any()
    assert not shows_something(torch.full((2, 3, 224, 224), 123.4)).any()


def test_a_faint_picture_shows_something() -> None:
    assert shows_something(0.5 + 0.01 * pictures(50)).all()


def test_under_the_noises_of_digits_c_all_images_show_something() -> None:
    data = rotta.load_dataset("digits-c")
    stream = rotta.Stream(data, setting="continual", batch_size=1000, prefetch=0, seed=0)
    assert all(bool(shows_something(batch.x).all()) for batch in stream)


def test_small_images_are_not_judged() -> None:
    assert shows_something(noise(9)[..., :16, :16]).all()
    assert shows_something(noise(9)[..., :1]).all()


@every_method
def test_noise_is_not_learnt_from(name: str) -> None:
    """But it is predicted, and what comes after is learnt as if it had not been there."""
    model, unharmed = guarded(name), guarded(name)
    for seed in range(3):
        model(pictures(BATCH, seed)), unharmed(pictures(BATCH, seed))
    before = learnt(model)
    for seed in range(8):
        assert model(noise(BATCH, seed)).isfinite().all()
    assert same(learnt(model), before)
    if name != "cotta":  # whose views are drawn to predict, too
        for seed in range(3, 6):
            assert torch.equal(model(pictures(BATCH, seed)), unharmed(pictures(BATCH, seed)))


@every_method
def test_a_few_images_that_show_nothing_change_nothing(name: str) -> None:
    """With or without a guard it is the same: updates do not come a batch later because of one."""
    model, plain = guarded(name), guarded(name)
    plain._guard = None
    for seed in range(4):
        x = torch.cat([pictures(BATCH // 2, seed), noise(BATCH // 2, seed)])
        assert torch.equal(model(x), plain(x))
    assert model.events == []


def test_blindness_is_an_event_and_its_end_another() -> None:
    model = guarded("rotta")
    model(pictures(BATCH))
    for seed in range(BLIND_AFTER // BATCH - 1):
        model(noise(BATCH, seed))
    assert model.events == []
    for seed in range(3):
        model(noise(BATCH, seed))
    assert [(event["action"], event["cause"]) for event in model.events] == [
        ("leave out", "no picture")
    ]
    model(pictures(BATCH))
    assert [event["action"] for event in model.events] == ["leave out", "learn again"]


def test_a_model_that_breaks_while_it_is_blind_is_put_back() -> None:
    model = guarded("rotta")
    model(pictures(BATCH))
    for name, buffer in model.named_buffers():
        if "running_mean" in name:
            buffer.fill_(torch.nan)
    for seed in range(3):
        model(noise(BATCH, seed))
    assert [event["cause"] for event in model.events] == ["not finite"]
    assert model(noise(BATCH)).isfinite().all()


def test_a_state_from_before_is_not_blind() -> None:
    model = guarded("rotta")
    model(pictures(BATCH))
    state = model.state_dict()
    del state["_extra_state"]["_guard"]["_blind_for"]
    for seed in range(6):
        model(noise(BATCH, seed))
    model.load_state_dict(state)
    model(pictures(BATCH))
    assert "learn again" not in [event["action"] for event in model.events]


def test_without_a_guard_noise_is_learnt_from() -> None:
    """The paper's method stays the paper's."""
    model = rotta.adapt(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3072, 10)), "tent")
    before = learnt(model)
    model(noise(BATCH))
    assert not same(learnt(model), before)
