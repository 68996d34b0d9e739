"""The metrics beside the obvious loops over samples."""

import math
from collections import Counter
from itertools import pairwise
from statistics import fmean

import pytest
import torch

from rotta.evaluate import Step
from rotta.memory.cstu import CSTU
from rotta.metrics import BankLog, Course, ErrorRates
from rotta.metrics.course import MOST_WINDOWS
from rotta.streams import Batch

CLASSES = 5


def steps(batch_size: int = 7, visits: int = 1) -> list[Step]:
    """Random answers to 60 samples of one domain, then 45 of another, as often as said."""
    rng = torch.Generator().manual_seed(0)
    domain = torch.tensor(([0] * 60 + [1] * 45) * visits)
    y = torch.randint(CLASSES, domain.shape, generator=rng)
    logits = torch.randn(len(y), CLASSES, generator=rng)
    x = torch.rand(len(y), 3, 2, 2, generator=rng)
    parts = zip(*(torch.split(t, batch_size) for t in (x, y, domain, logits)), strict=True)
    return [
        Step(Batch(x, y, domain, domain, domain, restart=False, number=number), logits)
        for number, (x, y, domain, logits) in enumerate(parts)
    ]


def samples(walked: list[Step]) -> list[tuple[int, int, int, float]]:
    """Domain, label, prediction and entropy of each sample."""
    listed = []
    for step in walked:
        for i in range(len(step.batch.y)):
            p = step.logits[i].double().softmax(dim=0).tolist()
            entropy = -sum(share * math.log(share) for share in p)
            listed.append(
                (int(step.batch.domain[i]), int(step.batch.y[i]), int(step.predicted[i]), entropy)
            )
    return listed


def percent_wrong(chosen: list[tuple[int, int, int, float]]) -> float:
    return 100 * fmean(label != predicted for _, label, predicted, _ in chosen)


def test_errors_per_domain_and_per_class() -> None:
    walked = steps()
    by_domain, by_class = ErrorRates(("fog", "snow")), ErrorRates([str(c) for c in range(CLASSES)])
    for step in walked:
        by_domain.add(step.batch.domain, step.wrong)
        by_class.add(step.batch.y, step.wrong)
    listed = samples(walked)
    assert by_domain.percent() == pytest.approx(
        {
            name: percent_wrong([s for s in listed if s[0] == i])
            for i, name in enumerate(["fog", "snow"])
        }
    )
    assert by_class.percent() == pytest.approx(
        {str(c): percent_wrong([s for s in listed if s[1] == c]) for c in range(CLASSES)}
    )
    assert by_domain.average() == pytest.approx(fmean(by_domain.percent().values()))
    assert 0 < by_domain.average() < 100


def test_groups_not_reached_are_left_out() -> None:
    errors = ErrorRates(("fog", "snow"))
    assert errors.percent() == {}
    assert math.isnan(errors.average())
    errors.add(torch.tensor([1]), torch.tensor([True]))
    assert (errors.percent(), errors.average()) == ({"snow": 100.0}, 100.0)


@pytest.mark.parametrize(("batch_size", "visits"), [(7, 1), (1, 1), (1, 3), (105, 1), (200, 1)])
def test_the_course_is_that_of_the_samples_in_each_window(batch_size: int, visits: int) -> None:
    walked = steps(batch_size, visits=visits)
    course = Course(CLASSES, len(walked))
    for step in walked:
        course.add(step)
    listed = samples(walked)
    assert len(course.samples) <= MOST_WINDOWS
    assert course.samples[-1] == len(listed) == 105 * visits
    borders = [0, *course.samples]
    windows = [listed[a:b] for a, b in pairwise(borders)]
    assert course.error() == pytest.approx([percent_wrong(window) for window in windows])
    assert course.entropy() == pytest.approx([fmean(s[3] for s in w) for w in windows], rel=1e-6)
    assert course.balance() == pytest.approx([balance([s[2] for s in w]) for w in windows])


def balance(predicted: list[int]) -> float:
    shares = [count / len(predicted) for count in Counter(predicted).values()]
    return -sum(share * math.log(share) for share in shares) / math.log(CLASSES)


def test_windows_are_as_many_as_fit_and_end_where_a_batch_ends() -> None:
    walked = steps(1, visits=3)  # 315 batches
    course = Course(CLASSES, len(walked))
    ends = []
    for number, step in enumerate(walked, start=1):
        course.add(step)
        if course.at_the_end_of_a_window:
            ends.append(number)
    assert ends == list(range(3, 316, 3)) == course.samples


def test_a_walk_may_be_looked_at_before_its_end() -> None:
    course = Course(CLASSES, batches=15)
    for step in steps()[:4]:
        course.add(step)
    assert len(course.error()) == len(course.entropy()) == len(course.balance()) == 4


def test_balance_is_one_when_all_classes_come_equally_often_and_zero_for_one() -> None:
    batch = steps(CLASSES)[0].batch
    for logits, expected in [(torch.eye(CLASSES), 1.0), (torch.eye(CLASSES)[[0] * CLASSES], 0.0)]:
        course = Course(CLASSES, batches=1)
        course.add(Step(batch, logits))
        assert course.balance() == pytest.approx([expected])


def test_predictions_that_are_no_numbers_do_not_spoil_the_course() -> None:
    batch = steps(2)[0].batch
    logits = torch.tensor([[math.nan] * CLASSES, [0.0] + [-math.inf] * (CLASSES - 1)])
    course = Course(CLASSES, batches=1)
    course.add(Step(batch, logits))
    assert course.entropy() == pytest.approx([math.log(CLASSES) / 2])


def test_the_bank_is_noted_as_it_was_at_that_moment() -> None:
    bank, log = CSTU(capacity=6, num_classes=CLASSES), BankLog(CLASSES)
    expected_counts, expected_age = [], []
    log.note(bank, samples=0)
    seen = 0
    for step in steps()[:9]:
        bank.insert(step.batch.x, step.predicted, torch.rand(len(step.predicted)))
        seen += len(step.predicted)
        log.note(bank, samples=seen)
        held = [(int(c), int(a)) for c, a in zip(bank.label, bank.age, strict=True) if c >= 0]
        expected_counts.append([sum(c == k for c, _ in held) for k in range(CLASSES)])
        expected_age.append(fmean(age for _, age in held))
    assert log.samples == [0, *range(7, 64, 7)]
    assert log.counts() == [[0] * CLASSES, *expected_counts]
    assert log.age() == pytest.approx([0.0, *expected_age])
