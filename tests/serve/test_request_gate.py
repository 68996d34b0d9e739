"""Requests of a stream that takes much wait before they are read, and others do not."""

import asyncio

import pytest

from rotta.serve import gate as gates
from rotta.serve.gate import Gate, slow_to_say_wait
from rotta.serve.limits import Limits
from rotta.serve.refusals import Refusal
from rotta.serve.shares import Shares
from rotta.serve.waiting_line import WaitingLine

LIMITS = Limits(max_images=2, queue=9, queue_per_stream=5)


def after_a_flood(seconds: float) -> Shares:
    """The stream ``flood`` has to rest."""
    shares = Shares()
    shares.charge({"calm": 1}, seconds=0.001 * seconds)
    shares.charge({"flood": 1}, seconds=seconds)
    assert shares.rest("flood") > 0.0
    return shares


def test_one_at_a_time_in_order_while_others_pass() -> None:
    line, order = WaitingLine(LIMITS), list[str]()

    async def ask(gate: Gate, stream: str, name: str) -> None:
        async with gate.passed(stream, images=1):
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    async def all_at_once() -> None:
        gate = Gate(line, after_a_flood(0.1))
        asked = [asyncio.create_task(ask(gate, "flood", name)) for name in ("first", "second")]
        await asyncio.sleep(0)
        assert line.size == 2  # they count as waiting
        await asyncio.gather(ask(gate, "calm", "calm"), ask(gate, "calm", "other"))
        await asyncio.gather(*asked)

    asyncio.run(all_at_once())
    assert order == [
        *("calm in", "other in", "calm out", "other out"),
        *("first in", "first out", "second in", "second out"),
    ]
    assert line.size == 0


def test_too_many_are_refused_and_those_before_stay() -> None:
    line = WaitingLine(LIMITS)

    async def ask(gate: Gate) -> None:
        async with gate.passed("flood", images=2):
            pass

    async def three() -> list[BaseException | None]:
        gate = Gate(line, after_a_flood(0.05))
        return await asyncio.gather(*[ask(gate) for _ in range(3)], return_exceptions=True)

    first, second, third = asyncio.run(three())
    assert first is second is None
    assert isinstance(third, Refusal)
    assert third.status == 429
    assert line.size == 0


def test_who_waits_too_long_is_refused_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gates, "_PATIENCE", 0.05)
    line = WaitingLine(LIMITS)

    async def ask() -> None:
        gate = Gate(line, after_a_flood(1.0))
        for _ in range(2):  # the second finds the turn free, and the stream still at rest
            with pytest.raises(Refusal, match="wait for answers") as refused:
                async with gate.passed("flood", images=1):
                    raise AssertionError("nobody may pass")
            assert refused.value.status == 429

    asyncio.run(ask())
    assert line.size == 0


def test_an_upload_that_stops_does_not_stop_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "_LONGEST_TURN", 0.01)
    stopped, passed = asyncio.Event(), list[str]()

    async def ask(gate: Gate, name: str) -> None:
        async with gate.passed("flood", images=1):
            passed.append(name)
            if name == "stopped":
                await stopped.wait()

    async def all_at_once() -> None:
        gate = Gate(WaitingLine(LIMITS), after_a_flood(0.05))
        first = asyncio.create_task(ask(gate, "stopped"))
        await asyncio.sleep(0)
        await asyncio.gather(ask(gate, "second"), ask(gate, "third"))
        stopped.set()
        await first
        await ask(gate, "last")

    asyncio.run(all_at_once())
    assert passed == ["stopped", "second", "third", "last"]


@pytest.mark.parametrize(("status", "held_back"), [(429, True), (503, False)])
def test_only_who_was_told_to_wait_is_held_back(
    status: int, held_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = list[str]()
    monkeypatch.setattr(gates, "_HELD_BACK", 0.01)

    async def refused() -> None:
        try:
            async with slow_to_say_wait():
                raise Refusal(status, "no", 1)
        except Refusal:
            order.append("refused")

    async def other() -> None:
        order.append("other")

    async def both() -> None:
        await asyncio.gather(refused(), other())

    asyncio.run(both())
    assert order == (["other", "refused"] if held_back else ["refused", "other"])
