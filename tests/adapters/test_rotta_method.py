"""RoTTA: what it must do whatever the network, and that each of its parts is live."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from rotta.adapters.rotta import RoTTA
from rotta.models import build, load_source
from rotta.nn.rbn import RobustBatchNorm


def images(count: int, seed: int = 0, side: int = 16) -> Tensor:
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


def method(**options: object) -> RoTTA:
    net = build("wrn-10-1", 10, seed=3)
    return RoTTA(net, 10, capacity=16, update_every=16, **options)  # type: ignore[arg-type]


def walk(model: RoTTA, batches: list[Tensor]) -> list[Tensor]:
    return [model(x) for x in batches]


def stream(count: int = 6, size: int = 8) -> list[Tensor]:
    return [images(size, seed) for seed in range(count)]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_reset_is_exact() -> None:
    model = method()
    first = walk(model, stream())
    assert not same(first[4:], walk(model, stream())[4:])
    model.reset()
    assert same(first, walk(model, stream()))


def test_a_saved_state_continues_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model, other = method(), method(seed=5)
    walk(model, stream(3))  # in the middle of a cadence: 24 of 16 samples
    torch.save(model.state_dict(), tmp_path / "state.pt")
    walk(other, stream(2, size=3))
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    later = stream(8)[3:]
    assert same(walk(model, later), walk(other, later))


def test_the_same_seed_gives_the_same_predictions() -> None:
    assert same(walk(method(), stream()), walk(method(), stream()))
    assert not same(walk(method(), stream()), walk(method(seed=1), stream()))


def test_updates_depend_on_samples_not_on_batches() -> None:
    x = images(70)
    for size in (1, 7, 16, 64, 70):
        model = method()
        walk(model, list(torch.split(x, size)))
        assert model.updates == 70 // 16
        assert model.samples_seen == 70


def test_input_and_network_stay_as_they_were() -> None:
    net = build("wrn-10-1", 10, seed=3).train()
    before = {name: x.clone() for name, x in net.state_dict().items()}
    x = images(32)
    copy = x.clone()
    model = RoTTA(net, 10, capacity=16, update_every=16)
    model(x)
    assert torch.equal(x, copy)
    assert model.detach() is net
    assert net.training
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())


def test_it_learns_where_gradients_are_switched_off() -> None:
    expected = walk(method(), stream())
    for switched_off in (torch.no_grad, torch.inference_mode):
        model = method()
        with switched_off():
            inside = walk(model, stream())
        assert same(expected, inside)


@pytest.mark.parametrize(
    "part",
    [{"robust_norm": False}, {"balanced_bank": False}, {"robust_training": False}, {"lr": 0.0}],
    ids=lambda part: next(iter(part)),
)
def test_every_part_is_live(part: dict[str, object]) -> None:
    full, without = walk(method(), stream(12)), walk(method(**part), stream(12))
    assert not same(full[-3:], without[-3:])


def test_what_moves_and_what_does_not() -> None:
    model = method(nu=0.25)
    before = {name: x.clone() for name, x in model.state_dict().items() if isinstance(x, Tensor)}
    model(images(16))
    after = {name: x for name, x in model.state_dict().items() if isinstance(x, Tensor)}
    moved = {
        name for name in before if name[0] != "b" and not torch.equal(before[name], after[name])
    }
    norms = {name for name, m in model.student.named_modules() if isinstance(m, RobustBatchNorm)}
    fields = ("weight", "bias", "running_mean", "running_var")
    own = {f"{who}.{name}.{f}" for who in ("student", "teacher") for name in norms for f in fields}
    assert moved == own
    for name in norms:  # the teacher follows by ν, in parameters only
        for f in ("weight", "bias"):
            start, student = before[f"teacher.{name}.{f}"], after[f"student.{name}.{f}"]
            expected = 0.75 * start + 0.25 * student
            assert torch.allclose(after[f"teacher.{name}.{f}"], expected, atol=1e-7)


def test_predictions_come_before_the_update_that_they_cause() -> None:
    net = load_source("digits")
    model = RoTTA(net, 10, capacity=16, update_every=16)
    x = images(48, side=32)
    assert torch.allclose(model(x), net(x), atol=1e-5)


def test_logits_may_come_in_an_object() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = build("wrn-10-1", 10, seed=3)

        def forward(self, x: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.net(x))

    wrapped = RoTTA(Wrapped(), 10, capacity=16, update_every=16)
    assert same(walk(method(), stream()), walk(wrapped, stream()))


def test_networks_without_batch_norm_are_told_what_to_do() -> None:
    layers = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net = nn.Sequential(*layers, nn.Linear(8, 10))
    with pytest.raises(ValueError, match="pass robust_norm=False"):
        RoTTA(net, 10)
    model = RoTTA(net, 10, robust_norm=False, capacity=16, update_every=16)
    model(images(16))
    assert model.updates == 1
    with pytest.raises(ValueError, match="nothing to adapt"):
        RoTTA(nn.Sequential(nn.Flatten(), nn.Linear(12, 10)), 10)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.full((2, 3, 16, 16), torch.nan), "NaN or infinite"),
        (torch.full((2, 3, 16, 16), torch.inf), "NaN or infinite"),
        (torch.zeros(2, 3, 16), r"\(B, C, H, W\)"),
        (torch.zeros(0, 3, 16, 16), "empty"),
        (torch.zeros(2, 3, 16, 16, dtype=torch.float64), "float32"),
        (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), "float32"),
        (torch.zeros(2, 3, 20, 20), "resize them"),
        (torch.zeros(2, 3, 16, 16, device="meta"), "move one of them"),
    ],
)
def test_a_bad_batch_changes_nothing(x: Tensor, message: str) -> None:
    model = method()
    walk(model, stream(3))
    before = {n: t.clone() for n, t in model.state_dict().items() if isinstance(t, Tensor)}
    with pytest.raises(ValueError, match=message):
        model(x)
    after = model.state_dict()
    assert all(torch.equal(t, after[name]) for name, t in before.items())
    assert model.samples_seen == 24


def test_a_wrong_number_of_classes_and_half_precision_are_refused() -> None:
    model = RoTTA(build("wrn-10-1", 10), 7)
    with pytest.raises(ValueError, match="pass num_classes=10"):
        model(images(4))
    assert model.samples_seen == 0
    with pytest.raises(ValueError, match=r"net\.float\(\)"):
        RoTTA(build("wrn-10-1", 10).half(), 10)
