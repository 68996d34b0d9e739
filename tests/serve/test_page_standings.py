"""How streams stand, and how they did of late."""

import math
from dataclasses import replace

import pytest

from rotta.pool import StreamInfo
from rotta.serve import standings as module
from rotta.serve.standings import Standing, Standings
from rotta.serve.trend import SECONDS, SLOTS, Trend

INFO = StreamInfo(
    name="a",
    resident=True,
    frozen=False,
    requests=1,
    samples=1,
    updates=3,
    last_used=1.0,
    entropy=0.5,
    lately=[1.0],
    bank_by_class=[1],
    bank_ages=[1],
    statistics_distance=0.1,
    parameter_distance=0.1,
    rate=1.0,
    events=[],
)


def only(standings: Standings) -> Standing:
    (standing,) = standings.all()
    return standing


def test_a_trend_is_bounded_and_forgets() -> None:
    trend = Trend()
    for slot in range(3 * SLOTS):
        trend.add(slot * SECONDS, [slot % 2], entropy=float(slot), latency=0.001)
    now = (3 * SLOTS - 1) * SECONDS + 1.0
    curves = trend.curves(now)
    assert curves["entropy"] == [float(slot) for slot in range(2 * SLOTS, 3 * SLOTS)]
    assert curves["images_per_second"] == [1 / SECONDS] * (SLOTS - 1) + [None]
    assert trend.rate(now) == pytest.approx(2 / (SECONDS + 1), abs=1e-3)
    later = trend.curves(now + SLOTS * SECONDS)
    assert set(later["entropy"]) == set(later["latency_ms"]) == {None}
    assert trend.rate(now + SLOTS * SECONDS) == 0


def test_a_quiet_slot_has_a_rate_and_nothing_else() -> None:
    trend = Trend()
    trend.add(0.0, [1, 1], entropy=0.2, latency=0.004)
    trend.add(0.5, [1, 2], entropy=0.4, latency=0.008)
    curves = trend.curves(2 * SECONDS)
    assert curves["entropy"][-3:] == [0.3, None, None]
    assert curves["latency_ms"][-3:] == [6.0, None, None]
    assert curves["images_per_second"][-4:] == [None, 4 / SECONDS, 0.0, None]
    entropy = 0.75 * math.log(4 / 3) + 0.25 * math.log(4)
    assert curves["classes"][-3] == pytest.approx(math.exp(entropy), abs=0.01)


def test_trouble_is_nan_or_a_guard_that_stepped_in() -> None:
    standings = Standings()
    standings.note(INFO)
    assert (only(standings).state, only(standings).in_trouble) == ("well", False)
    event = {"batch": 5, "action": "roll back", "cause": "lost belief", "evidence": 9.0}
    standings.note(replace(INFO, rate=0.1, events=[{**event, "rate": 0.1, "signals": {}}]))  # type: ignore[typeddict-item]
    assert (only(standings).state, only(standings).action) == ("alarm", "roll back")
    blind = {**event, "action": "leave out", "cause": "no picture", "rate": 1.0, "signals": {}}
    standings.note(replace(INFO, events=[blind]))  # type: ignore[list-item]
    assert (only(standings).state, only(standings).action) == ("alarm", "leave out")
    again = {**blind, "action": "learn again"}
    standings.note(replace(INFO, events=[blind, again]))  # type: ignore[list-item]
    assert only(standings).state == "well"
    standings.add("a", [0], entropy=math.nan, latency=0.001)
    assert only(standings).state == "broken"
    standings.note(replace(INFO, entropy=None, requests=0))  # as after a reset
    assert not only(standings).in_trouble
    standings.forget("a")
    assert standings.all() == []


def test_the_streams_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS", 2)
    standings = Standings()
    for stream in ("a", "b", "a", "c"):
        standings.add(stream, [0], entropy=0.1, latency=0.001)
    assert [each.stream for each in standings.all()] == ["a", "c"]
    assert standings.curves(["b"])[0]["entropy"] == [None] * SLOTS


def test_traffic_is_that_of_all_streams() -> None:
    standings = Standings()
    assert standings.traffic().latency_p99_ms is None
    for number in range(100):
        standings.add(f"s{number}", [0], entropy=0.1, latency=number / 1000)
    traffic = standings.traffic()
    assert traffic.latency_p50_ms == pytest.approx(49.5, abs=1)
    assert traffic.latency_p99_ms == pytest.approx(98, abs=1)
    assert 3 < traffic.requests_per_second <= 100
