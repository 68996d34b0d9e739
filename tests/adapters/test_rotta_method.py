"""RoTTA beside a replay; each of its parts is live, and moves what it should and nothing else."""

import math
from typing import Any

import pytest
import torch
from small_methods import EVERY, images, make, same, small_net, stream, walk
from torch import Tensor, nn

from rotta.adapters.rotta import RoTTA
from rotta.memory.cstu import CSTU
from rotta.memory.recent import Recent
from rotta.models import load_source
from rotta.nn.augment import drawn_strong_views
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import copy_sharing_weights, replace_batch_norms


def method(**options: Any) -> RoTTA:
    model = make("rotta", **options)
    assert isinstance(model, RoTTA)
    return model


def tensors_of(model: RoTTA) -> dict[str, Tensor]:
    return {name: x.clone() for name, x in model.state_dict().items() if isinstance(x, Tensor)}


class Replay:
    """Predict, present to the bank sample by sample, update after every 16th."""

    def __init__(self) -> None:
        self.student, self.teacher = (
            replace_batch_norms(
                copy_sharing_weights(small_net()), RobustBatchNorm.from_batchnorm
            ).eval()
            for _ in range(2)
        )
        self.optimiser = torch.optim.Adam(_gammas_and_betas(self.student), lr=1e-3)
        self.bank = CSTU(EVERY, 10)
        self.generator = torch.Generator().manual_seed(0)
        self.seen = 0

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = self.teacher.eval()(x)
        p = logits.softmax(1)
        entropy = -(p * (p + 1e-6).log()).sum(1)
        for i, label in enumerate(p.argmax(1)):
            self.bank.insert(x[i : i + 1], label[None], entropy[i : i + 1])
            self.seen += 1
            if self.seen % EVERY == 0:
                self.update()
        return logits

    def update(self) -> None:
        held = slice(self.bank.size())
        weak, ages = self.bank.images[held], self.bank.age[held].tolist()
        with torch.no_grad():
            target = self.teacher.train()(weak).softmax(1)
        (strong,) = drawn_strong_views(weak, self.generator)
        cross_entropy = -(target * self.student.train()(strong).log_softmax(1)).sum(1)
        decay = [math.exp(-age / EVERY) for age in ages]
        weight = torch.tensor([d / (1 + d) for d in decay])
        self.optimiser.zero_grad()
        (weight * cross_entropy).mean().backward()
        self.optimiser.step()
        pairs = zip(_gammas_and_betas(self.teacher), _gammas_and_betas(self.student), strict=True)
        with torch.no_grad():
            for own, of_student in pairs:
                own.copy_(0.999 * own + 0.001 * of_student)


def _gammas_and_betas(net: nn.Module) -> list[nn.Parameter]:
    norms = [m for m in net.modules() if isinstance(m, RobustBatchNorm)]
    return [p for norm in norms for p in norm.parameters()]


def test_batches_follow_the_replay() -> None:
    model, replay = method(), Replay()
    for x in stream(12):
        assert torch.allclose(model(x), replay(x), atol=1e-4)
    pairs = zip(_gammas_and_betas(model.student), _gammas_and_betas(replay.student), strict=True)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


@pytest.mark.parametrize(
    "part",
    [
        {"robust_norm": False},
        {"balanced_bank": False},
        {"robust_training": False},
        {"lr": 0.0},
        {"nu": 0.0},
        {"alpha": 0.0},
        {"lambda_t": 0.0},
        {"lambda_u": 100.0},
    ],
    ids=lambda part: next(iter(part)),
)
def test_every_part_is_live(part: dict[str, object]) -> None:
    full, without = walk(method(), stream(12)), walk(method(**part), stream(12))
    assert not same(full[-3:], without[-3:])


def test_ablations_have_other_parts() -> None:
    assert isinstance(method().bank, CSTU)
    assert isinstance(method(balanced_bank=False).bank, Recent)
    without_teacher = method(robust_training=False)
    assert without_teacher.teacher is without_teacher.student


def test_what_moves_and_what_does_not() -> None:
    model = method(nu=0.25)
    start = tensors_of(model)
    model(images(EVERY - 1))
    before = tensors_of(model)
    banks = {name for name in start if name.startswith("bank.")}
    assert {name for name in start if not torch.equal(start[name], before[name])} <= banks
    model(images(1))
    after = tensors_of(model)
    moved = {name for name in start if not torch.equal(start[name], after[name])} - banks
    norms = {name for name, m in model.student.named_modules() if isinstance(m, RobustBatchNorm)}
    fields = ("weight", "bias", "running_mean", "running_var")
    own = {f"{who}.{name}.{f}" for who in ("student", "teacher") for name in norms for f in fields}
    assert moved == own
    for name in norms:  # the teacher follows by ν, in parameters only
        for f in ("weight", "bias"):
            old, student = start[f"teacher.{name}.{f}"], after[f"student.{name}.{f}"]
            expected = 0.75 * old + 0.25 * student
            assert torch.allclose(after[f"teacher.{name}.{f}"], expected, atol=1e-7)


def test_weak_views_move_the_teachers_statistics() -> None:
    """The bank's images themselves, by α, in a network whose first layer normalises."""
    net = nn.Sequential(nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 10))
    model = method(net=net, alpha=0.25)
    model(images(EVERY))
    bank = model.bank.images[: model.bank.size()]
    norms = model.teacher.get_submodule("0"), model.student.get_submodule("0")
    var, mean = torch.var_mean(bank, dim=(0, 2, 3), correction=0)
    teacher, student = norms
    assert isinstance(teacher, RobustBatchNorm)
    assert isinstance(student, RobustBatchNorm)
    assert torch.allclose(teacher.running_mean, 0.25 * mean, atol=1e-6)
    assert torch.allclose(teacher.running_var, 0.75 + 0.25 * var, atol=1e-6)
    assert not torch.allclose(student.running_mean, teacher.running_mean, atol=1e-6)


def test_predictions_come_before_the_update_that_they_cause() -> None:
    net = load_source("digits")
    model = method(net=net)
    x = images(48, side=32)
    assert torch.allclose(model(x), net(x), atol=1e-5)


def test_networks_without_batch_norm_are_told_what_to_do() -> None:
    layers = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    net = nn.Sequential(*layers, nn.Linear(8, 10))
    with pytest.raises(ValueError, match="pass robust_norm=False"):
        method(net=net)
    model = method(net=net, robust_norm=False)
    model(images(EVERY))
    assert model.updates == 1
    with pytest.raises(ValueError, match="nothing to adapt"):
        method(net=nn.Sequential(nn.Flatten(), nn.Linear(12, 10)))
