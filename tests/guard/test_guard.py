"""The guard on handwritten digits: what would collapse does not, what was poisoned comes back."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import rotta
from rotta.adapters.learnt import Learnt

SIZE = 32


@cache
def digits(split: str = "test") -> tuple[Tensor, Tensor]:
    """Some 900 images, (B, 3, 8, 8), and labels."""
    data = rotta.load_dataset("digits", split=split)
    (batch,) = rotta.Stream(data, batch_size=1000, prefetch=0)
    return F.avg_pool2d(batch.x, 4), batch.y


@cache
def trained_net() -> nn.Module:
    """A small network that reads them, trained here in a second."""
    torch.manual_seed(0)
    first = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2)
    second = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AvgPool2d(2)
    net = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(128, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    x, y = digits("train")
    for _ in range(15):
        for rows in torch.split(torch.randperm(len(x)), 64):
            optimiser.zero_grad()
            F.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net.eval()


def mixed(count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Independent batches."""
    generator = torch.Generator().manual_seed(seed)
    x, y = digits()
    drawn = torch.randint(len(x), (count, SIZE), generator=generator)
    return [(x[rows], y[rows]) for rows in drawn]


def by_class(count: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of few classes, under noise: what entropy minimisation cannot bear."""
    x, y = digits()
    order = y.argsort(stable=True)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    noisy = (x + 0.3 * noise).clamp(0, 1)
    rows = [order[(SIZE * i) % 850 :][:SIZE] for i in range(count)]
    return [(noisy[row], y[row]) for row in rows]


def errors(model: rotta.Adapter, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
    """In percent, batch by batch."""
    return [100 * (model(x).argmax(dim=1) != y).float().mean().item() for x, y in batches]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def new(method: str, **options: Any) -> rotta.Adapter:
    return rotta.adapt(trained_net(), method, **options)


def test_tent_does_not_collapse() -> None:
    stream = by_class(90)
    unlearnt = mean(errors(new("bn"), stream)[-30:])
    plain = mean(errors(new("tent", lr=0.02), stream)[-30:])
    model = new("tent", lr=0.02, guard=True)
    guarded = mean(errors(model, stream)[-30:])
    assert plain > unlearnt + 10
    assert guarded < unlearnt + 3
    assert model.events[0]["cause"] == "lost belief"
    assert model.events[0]["signals"]["lost belief"] > 0.06  # type: ignore[operator]
    assert {"roll back", "reset"} & {event["action"] for event in model.events}


@torch.no_grad()
def scale_weights(model: rotta.Adapter) -> None:
    for weight in Learnt(model).parameters()[0]:
        weight.mul_(10)


@torch.no_grad()
def break_statistics(model: rotta.Adapter) -> None:
    for tensor in Learnt(model).statistics()[0] or Learnt(model).parameters()[0]:
        tensor.fill_(torch.nan)


def show_noise(model: rotta.Adapter) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        model(torch.rand(SIZE, 3, 8, 8, generator=generator))


@pytest.mark.parametrize("poison", [scale_weights, break_statistics, show_noise])
@pytest.mark.parametrize("method", ["tent", "rotta"])
def test_a_poisoned_model_recovers(method: str, poison: Callable[[rotta.Adapter], None]) -> None:
    model, healthy = new(method, guard=True), new(method)
    before, after = mixed(20, seed=0), mixed(50, seed=1)
    for each in (model, healthy):
        errors(each, before)
    assert model.events == []
    poison(model)
    recovered, expected = errors(model, after)[-20:], errors(healthy, after)[-20:]
    assert mean(recovered) <= mean(expected) + 2


@pytest.mark.parametrize(
    ("method", "poison"),
    [("rotta", scale_weights), ("rotta", break_statistics), ("tent", break_statistics)],
)
def test_without_a_guard_it_does_not(method: str, poison: Callable[[rotta.Adapter], None]) -> None:
    model = new(method)
    errors(model, mixed(2, seed=0))
    poison(model)
    assert mean(errors(model, mixed(10, seed=1))) > 6


@pytest.mark.parametrize("method", ["tent", "rotta", "note"])
def test_few_classes_at_a_time_are_no_harm(method: str) -> None:
    """A narrow histogram is the stream's business: nothing is lost by it."""
    x, y = digits()
    order = y.argsort(stable=True)
    model = new(method, guard=True)
    for rows in torch.split(order, SIZE):
        model(x[rows])
    assert model.events == []


def test_what_was_lowered_rises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from rotta.guard import guard

    monkeypatch.setattr(guard, "QUIET_PER_ALARM", 10)
    model = new("tent", guard=True)
    errors(model, mixed(4, seed=0))
    break_statistics(model)
    errors(model, mixed(20, seed=1))
    assert [event["action"] for event in model.events] == ["reset", "raise the rate"]
    assert [event["rate"] for event in model.events] == [0.1, 1.0]
    assert model.get_extra_state()["optimiser"]["param_groups"][0]["lr"] == 1e-3


def test_methods_that_learn_nothing_are_only_watched_for_what_is_not_finite() -> None:
    model = new("bn", guard=True)
    break_statistics(model)
    assert torch.isnan(model(mixed(1, seed=0)[0][0])).all()
    model(mixed(1, seed=1)[0][0])
    # there was no healthy state to remember before the damage was done
    assert [event["cause"] for event in model.events] == ["not finite"]
