"""CoTTA beside a replay with plain networks, one pass at a time, on the same draws."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_methods import images, small_net, stream
from torch import Tensor, nn

from rotta.adapters.cotta import CoTTA
from rotta.nn.augment import StrongView, strong_view
from rotta.nn.device_draws import device_generator

CPU = torch.device("cpu")
VIEWS, NO_VIEWS = 1.1, 0.0  # confidences that are never reached, and always


def cotta(**options: Any) -> CoTTA:
    return CoTTA(small_net(), 10, **options)


def plain_net() -> nn.Module:
    """By the batch's own statistics."""
    return copy.deepcopy(small_net()).train()


def separate_views(x: Tensor, passes: int, generator: torch.Generator) -> Iterator[Tensor]:
    """What the method draws for so many passes, applied one after the other."""
    view = StrongView.draw(passes, x.shape[-2], x.shape[-1], generator, CPU)
    there = device_generator(generator, CPU)
    for i in range(passes):
        one = StrongView(**{name: t[i : i + 1] for name, t in vars(view).items()})
        yield strong_view(x, one, torch.randn(x.shape, generator=there))


class Replay:
    """The published order, written out: average, loss, step, follow, restore."""

    def __init__(self, passes: int, restore: float = 0.01, momentum: float = 0.999) -> None:
        self.passes, self.restore, self.momentum = passes, restore, momentum
        self.source, self.student, self.teacher = plain_net(), plain_net(), plain_net()
        self.optimiser = torch.optim.Adam(self.student.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            target = self.averaged(x)
        log_p = self.student(x).log_softmax(1)
        loss = -(target.softmax(1) * log_p).sum(1).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        with torch.no_grad():
            self.follow()
            self.return_some()
        return target

    def averaged(self, x: Tensor) -> Tensor:
        passes = [self.teacher(view) for view in separate_views(x, self.passes, self.generator)]
        return sum(passes, torch.zeros(len(x), 10)) / len(passes)

    def follow(self) -> None:
        for own, of_student in zip(
            self.teacher.parameters(), self.student.parameters(), strict=True
        ):
            own.copy_(self.momentum * own + (1 - self.momentum) * of_student)

    def return_some(self) -> None:
        for own, start in zip(self.student.parameters(), self.source.parameters(), strict=True):
            there = device_generator(self.generator, CPU)
            chosen = torch.rand(own.shape, generator=there) < self.restore
            own[chosen] = start[chosen]


def test_32_passes_together_are_32_passes_apart() -> None:
    """Each is normalised with its own statistics."""
    x = images(4)
    model, replay = cotta(confidence=VIEWS, passes_at_once=32), Replay(32)
    with torch.no_grad():
        assert torch.allclose(model(x), replay.averaged(x), atol=1e-4)


@pytest.mark.parametrize("at_once", [1, 2, 5, 9, None])
def test_however_many_go_at_once_the_passes_are_the_same(at_once: int | None) -> None:
    x = images(4)
    model = cotta(passes=5, passes_at_once=at_once, confidence=VIEWS)
    with torch.no_grad():
        assert torch.allclose(model(x), Replay(5).averaged(x), atol=1e-4)


def test_batches_follow_the_replay() -> None:
    """A large share returns and the teacher moves fast, so that any other order would show."""
    options = {"restore": 0.3, "teacher_momentum": 0.5}
    model = cotta(passes=3, confidence=VIEWS, **options)
    replay = Replay(3, restore=0.3, momentum=0.5)
    for x in stream(4):
        assert torch.allclose(model(x), replay(x), atol=1e-3)
    pairs = zip(model.student.parameters(), replay.student.parameters(), strict=True)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


def test_a_sure_source_lets_the_plain_teacher_speak() -> None:
    x = images(8)
    model = cotta(confidence=NO_VIEWS)
    with torch.no_grad():
        assert torch.allclose(model(x), plain_net()(x), atol=1e-5)


@pytest.mark.parametrize(("margin", "views"), [(1e-4, True), (-1e-4, False)])
def test_the_source_is_asked_by_the_batchs_own_statistics(margin: float, views: bool) -> None:
    x = images(8)
    with torch.no_grad():
        sure = plain_net()(x).softmax(1).amax(1).mean().item()
        plain = plain_net()(x)
    at_start = cotta(passes=2, confidence=sure + margin)(x)
    assert torch.allclose(at_start, plain, atol=1e-5) is not views


def test_the_source_is_asked_not_the_student() -> None:
    """Batches that the student has learnt are no more certain to the source."""
    x = images(8)
    with torch.no_grad():
        sure = plain_net()(x).softmax(1).amax(1).mean().item()
    model = cotta(passes=2, confidence=sure + 1e-4, lr=0.01, teacher_momentum=0.0)
    drawn = []
    for _ in range(4):
        before = model.generator.get_state()
        model.infer(x)
        drawn.append(not torch.equal(model.generator.get_state(), before))
        model(x)
    assert all(drawn)


@pytest.mark.parametrize(("num_classes", "confidence"), [(2, 0.92), (10, 0.92), (11, 0.72)])
def test_confidence_by_the_number_of_classes(num_classes: int, confidence: float) -> None:
    assert CoTTA(small_net(), num_classes).confidence == confidence


def test_about_the_share_asked_for_is_restored() -> None:
    def at_source(restore: float) -> float:
        model = cotta(restore=restore, confidence=NO_VIEWS)
        model(images(8))
        pairs = zip(model.student.parameters(), model.source.parameters(), strict=True)
        equal = torch.cat([(a == b).flatten() for a, b in pairs])
        return equal.float().mean().item()

    unmoved = at_source(0.0)  # some have no gradient
    assert unmoved < 0.2
    for share in (0.01, 0.3):
        assert at_source(share) == pytest.approx(unmoved + share * (1 - unmoved), abs=0.01)
    assert at_source(1.0) == 1


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@torch.no_grad()
def test_what_is_restored_is_drawn_for_one_parameter_after_the_other(
    layout: torch.memory_format,
) -> None:
    net = copy.deepcopy(small_net()).to(memory_format=layout)  # type: ignore[call-overload]
    model, generator = CoTTA(net, 10, restore=0.3, seed=5), torch.Generator().manual_seed(5)
    student = list(model.student.parameters())
    expected = []
    for own, start in zip(student, model.source.parameters(), strict=True):
        own.add_(0.1)
        draw = torch.empty_like(own).uniform_(generator=device_generator(generator, CPU))
        expected.append(torch.where(draw < 0.3, start, own))
    model._restore(student)
    assert all(torch.equal(own, wanted) for own, wanted in zip(student, expected, strict=True))


def test_all_parameters_learn() -> None:
    model = cotta(restore=0.0, confidence=NO_VIEWS)
    model(images(8))
    assert all(p.requires_grad for p in model.student.parameters())
    pairs = zip(model.student.parameters(), model.source.parameters(), strict=True)
    assert all(not torch.equal(a, b) for a, b in pairs)
