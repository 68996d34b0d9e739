"""A flood of pictures on one stream, and what the others notice of it."""

import asyncio
import threading
from functools import partial

from rotta.serve.decoders import Decoders


def test_one_file_of_a_stream_at_a_time() -> None:
    decoders, let_go, order = Decoders(), threading.Event(), list[int]()

    def slow(number: int) -> int:
        assert let_go.wait(60)
        order.append(number)
        return number

    async def both() -> list[list[int]]:
        flood = [
            asyncio.create_task(decoders.in_turn("flood", [partial(slow, number)]))
            for number in range(6)
        ]
        calm = [await decoders.in_turn("calm", [lambda: 7]) for _ in range(3)]  # or never
        let_go.set()
        return calm + await asyncio.gather(*flood)

    done = asyncio.run(asyncio.wait_for(both(), 60))
    assert done == [[7], [7], [7], [0], [1], [2], [3], [4], [5]]
    assert order == sorted(order)
    decoders.close()


def test_who_fails_does_not_keep_its_turn() -> None:
    decoders = Decoders()

    def fails() -> int:
        raise ValueError("damaged")

    async def both() -> list[object]:
        asked = [decoders.in_turn("a", [work]) for work in (fails, lambda: 2)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    first, second = asyncio.run(both())
    assert isinstance(first, ValueError)
    assert second == [2]
    decoders.close()
