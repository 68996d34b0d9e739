"""Order, fairness and bounds of what waits."""

import threading

import pytest
import torch

from rotta.serve.limits import Limits
from rotta.serve.refusals import Refusal
from rotta.serve.shares import Shares
from rotta.serve.waiting_line import Job, WaitingLine


def job(stream: str, images: int = 1) -> Job:
    return Job(stream, images=torch.zeros(images, 3, 2, 2))


def turn(line: WaitingLine) -> list[tuple[str | None, int]]:
    return [(each.stream, each.size) for each in line.take()]


def test_one_of_each_stream_in_order() -> None:
    line = WaitingLine(Limits(max_wait=0))
    for number in (1, 2, 3):
        line.put(job("flood", number))
    line.put(job("calm"))
    assert turn(line) == [("flood", 1), ("calm", 1)]
    line.put(job("late"))
    assert turn(line) == [("flood", 2), ("late", 1)]
    line.put(job("first of a new turn"))
    assert turn(line)[0] == ("flood", 3)
    assert line.size == 0


def test_a_batch_is_bounded_and_nobody_is_overtaken() -> None:
    line = WaitingLine(Limits(max_wait=0, max_batch=4, max_images=9, queue=99, queue_per_stream=9))
    for stream, images in (("a", 3), ("b", 2), ("c", 1), ("d", 9), ("e", 1)):
        line.put(job(stream, images))
    turns = [turn(line) for _ in range(4)]
    assert turns == [[("a", 3)], [("b", 2), ("c", 1)], [("d", 9)], [("e", 1)]]


def test_bounds_of_one_and_of_all() -> None:
    line = WaitingLine(Limits(max_images=2, queue=5, queue_per_stream=3))
    line.put(job("a", 2))
    for stream, status in (("a", 429),):
        with pytest.raises(Refusal, match="wait for answers") as refused:
            line.put(job(stream, 2))
        assert (refused.value.status, refused.value.retry_after) == (status, 1)
    line.put(job("b", 2))
    with pytest.raises(Refusal, match="more to do than it can") as refused:
        line.put(job("c", 2))
    assert refused.value.status == 503
    assert line.size == 4


def test_what_is_being_decoded_counts_and_is_not_handed_out() -> None:
    line = WaitingLine(Limits(max_images=2, queue=5, queue_per_stream=3))
    with line.announced("a", 2):
        assert line.size == 2
        assert line.take(wait=False) == []
        with pytest.raises(Refusal, match="wait for answers"), line.announced("a", 2):
            pass
        line.put(job("a"))
        with pytest.raises(Refusal, match="wait for answers"):
            line.put(job("a"))
        with pytest.raises(Refusal, match="more to do than it can"):
            line.check_room("b", 3)
        line.put(job("b", 2))
    line.put(job("a", 2))
    assert line.size == 5


def test_a_full_batch_does_not_wait() -> None:
    line = WaitingLine(Limits(max_wait=3600, max_batch=2))
    line.put(job("a"))
    line.put(job("b"))
    assert len(line.take()) == 2


def test_a_lonely_request_waits_for_company_and_no_longer() -> None:
    line = WaitingLine(Limits(max_wait=3600, max_batch=2))
    line.put(job("a"))
    later = threading.Timer(0.05, lambda: line.put(job("b")))
    later.start()
    assert len(line.take()) == 2
    line = WaitingLine(Limits(max_wait=0.05))
    line.put(job("a"))
    assert len(line.take()) == 1


def test_who_has_to_rest_before_the_batch_is_full_is_waited_for() -> None:
    shares = Shares()
    line = WaitingLine(Limits(max_wait=0.2), shares)
    shares.charge({"calm": 1}, 0.001)
    line.put(job("flood"))
    later = threading.Timer(0.05, lambda: shares.charge({"flood": 1}, 0.2))
    later.start()
    assert [each.stream for each in line.take()] == ["flood"]


def test_commands_keep_a_streams_order_and_do_not_wait() -> None:
    line = WaitingLine(Limits(max_wait=3600))
    line.put(Job("a", command=lambda: None))
    line.put(job("a"))
    line.put(Job(None, command=lambda: None))
    taken = line.take()
    assert [(each.stream, each.images is None) for each in taken] == [(None, True), ("a", True)]


def test_what_is_done_to_a_flood_does_not_wait_behind_it() -> None:
    line = WaitingLine(Limits(max_wait=0, max_images=1, queue_per_stream=2))
    predictions = [job("a") for _ in range(2)]
    commands = [Job("a", command=lambda: None, at_once=True) for _ in range(2)]
    for each in (*predictions, *commands):  # more than the stream may have waiting
        line.put(each)
    assert [line.take() for _ in range(4)] == [[each] for each in (*commands, *predictions)]
    assert line.size == 0


def test_what_is_closed_hands_out_the_rest() -> None:
    line = WaitingLine(Limits(max_wait=3600))
    line.put(job("a"))
    line.put(job("a"))
    line.close()
    with pytest.raises(Refusal, match="shutting down"):
        line.put(job("b"))
    assert [len(line.take()) for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_batch": 0},
        {"max_wait": float("nan")},
        {"max_wait": float("inf")},
        {"queue_per_stream": 63},
    ],
)
def test_limits_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"or more|between 0 and 3600|lower max_images"):
        Limits(**wrong)


def test_who_has_other_things_to_do_takes_what_is_there() -> None:
    line = WaitingLine(Limits(max_wait=60.0))
    assert line.take(wait=False) == []
    line.put(job("a"))
    assert [each.stream for each in line.take(wait=False)] == ["a"]  # at once, batch or no batch
    assert line.take(wait=False) == []


class Tired(Shares):
    """One stream rests, as long as it is said to."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 3600.0

    def rest(self, stream: str) -> float:
        return self.seconds if stream == "tired" else 0.0


def test_who_rests_is_passed_over_and_comes_first_then() -> None:
    shares = Tired()
    line = WaitingLine(Limits(max_wait=0), shares)
    line.put(job("tired", 2))
    line.put(job("a"))
    assert line.has_next()
    assert turn(line) == [("a", 1)]
    assert not line.has_next()
    assert line.take(wait=False) == []
    assert line.size == 2
    line.put(job("b"))
    shares.seconds = 0.0
    assert turn(line) == [("tired", 2), ("b", 1)]


def test_a_line_of_those_who_rest_waits_until_they_have() -> None:
    shares = Tired()
    shares.seconds = 0.05
    line = WaitingLine(Limits(max_wait=0), shares)
    line.put(job("tired"))
    later = threading.Timer(0.01, lambda: setattr(shares, "seconds", 0.0))
    later.start()
    assert turn(line) == [("tired", 1)]
    later.join()


def test_commands_and_the_last_jobs_of_all_need_no_rest() -> None:
    line = WaitingLine(Limits(max_wait=3600), Tired())
    line.put(Job("tired", command=lambda: None))
    line.put(job("tired"))
    assert [each.images is None for each in line.take()] == [True]
    line.close()
    assert turn(line) == [("tired", 1)]
