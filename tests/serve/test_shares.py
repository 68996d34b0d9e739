"""Who takes how much of the server's time, and who rests."""

import asyncio
import time

import pytest

from rotta.serve.decoders import Decoders
from rotta.serve.shares import Shares


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def flooded(clock: Clock, calm: int = 8) -> Shares:
    """A tenth of a second for one stream, a hundredth for each of the others."""
    shares = Shares(clock)
    shares.charge({f"calm-{number}": 1 for number in range(calm)}, seconds=0.01 * calm)
    shares.charge({"flood": 1}, seconds=0.1)
    return shares


def test_who_takes_much_rests_in_proportion(clock: Clock) -> None:
    shares = flooded(clock)
    assert shares.rest("flood") == pytest.approx(0.2)
    assert shares.rest("calm-0") == shares.rest("stranger") == 0.0
    clock.now += 0.15
    assert shares.rest("flood") == pytest.approx(0.05)
    clock.now += 0.15
    assert shares.rest("flood") == 0.0
    shares.charge({"flood": 1}, seconds=0.2)
    assert shares.rest("flood") == pytest.approx(0.4)


@pytest.mark.parametrize("calm", [1, 100])
def test_so_it_gets_a_third_of_the_time_whatever_it_asks_for(clock: Clock, calm: int) -> None:
    shares, worked = flooded(clock, calm), 0.0
    while clock.now < 30.0:
        if not shares.rest("flood"):
            clock.now += 0.05
            worked += 0.05
            shares.charge({"flood": 64, "calm-0": 1}, seconds=0.05)
        clock.now += 0.005
    assert worked / clock.now == pytest.approx(1 / 3, abs=0.04)


@pytest.mark.parametrize(("every", "least", "most"), [(9.0, 0.75, 0.85), (1.0, 0.3, 0.4)])
def test_a_fast_camera_rests_for_who_was_about_just_now(
    clock: Clock, every: float, least: float, most: float
) -> None:
    shares, worked, due = Shares(clock), 0.0, 0.0
    while clock.now < 90.0:
        if clock.now >= due:
            due += every
            shares.charge({"neighbour": 1}, seconds=0.005)
        if rest := shares.rest("fast"):
            clock.now += min(rest, due - clock.now)
        else:
            clock.now += 0.02
            worked += 0.02
            shares.charge({"fast": 1}, seconds=0.02)
    assert least < worked / clock.now < most


def test_nobody_rests_alone_or_among_equals(clock: Clock) -> None:
    shares = Shares(clock)
    for _ in range(100):
        shares.charge({"only": 64}, seconds=0.1)
        clock.now += 0.1
    assert shares.rest("only") == 0.0
    shares = Shares(clock)
    for _ in range(100):
        shares.charge({"a": 64, "b": 64}, seconds=0.1)
        clock.now += 0.1
        shares.charge({"c": 32}, seconds=0.05)
    assert [shares.rest(stream) for stream in "abc"] == [0.0, 0.0, 0.0]


def test_work_for_several_is_shared_out(clock: Clock) -> None:
    shares = Shares(clock)
    shares.charge({"flood": 63, "calm": 1}, seconds=0.64)
    assert shares.rest("flood") == pytest.approx(2 * 0.63)
    assert shares.rest("calm") == 0.0
    shares.charge({}, seconds=1.0)  # of nobody in particular
    assert shares.rest("calm") == 0.0


def test_short_work_is_rested_from_less(clock: Clock) -> None:
    shares = Shares(clock)
    shares.charge({"slow": 1}, seconds=0.0001)
    shares.charge({"fast": 1}, seconds=0.005)
    assert shares.rest("fast") == pytest.approx(2 * 0.005 / 4)


def test_no_rest_is_long(clock: Clock) -> None:
    shares = flooded(clock)
    shares.charge({"flood": 1}, seconds=60.0)
    assert shares.rest("flood") == 2.0


def test_old_work_counts_less_and_streams_are_forgotten(clock: Clock) -> None:
    shares = flooded(clock, calm=1)
    clock.now += 9.0
    shares.charge({"calm-0": 1}, seconds=0.01)
    shares.charge({"flood": 1}, seconds=0.001)
    assert shares.rest("flood") == 0.0  # was ten times the others', but long ago
    for _ in range(30):
        clock.now += 0.5
        shares.charge({"flood": 1}, seconds=0.4)
    assert shares.rest("flood") == 0.0  # nobody else is about any more
    shares.charge({"calm-1": 1}, seconds=0.01)
    assert shares.rest("flood") > 0.0


def test_decoding_counts(clock: Clock) -> None:
    shares = Shares(clock)
    decoders = Decoders(shares)
    works = {"calm": lambda: None, "flood": lambda: time.sleep(0.01)}

    async def decode() -> None:
        for stream, work in works.items():
            await decoders.in_turn(stream, [work])

    asyncio.run(decode())
    assert shares.rest("flood") > 0.0
    assert shares.rest("calm") == 0.0
    decoders.close()
