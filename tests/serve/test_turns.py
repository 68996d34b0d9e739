"""What the worker does in a turn, and what it leaves for the next."""

import pytest
import torch
from live_server import PATIENCE, digits
from test_shares import Clock

from rotta.pool import StreamPool
from rotta.serve import Limits, load_model
from rotta.serve.shares import Shares
from rotta.serve.worker import Turn, Worker

ONE_AT_A_TIME = Limits(max_batch=1, max_images=1, max_wait=0)


class Watching:
    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def turn(self, turn: Turn) -> None:
        self.turns.append(turn)


@pytest.mark.parametrize(
    ("others_take", "updates"),
    [
        (0.01, [0, 2]),  # both learn after the second turn
        (1.0, [1, 1]),
    ],
)
def test_who_takes_much_learns_after_others_were_answered(
    others_take: float, updates: list[int]
) -> None:
    clock, watching = Clock(), Watching()
    shares = Shares(clock)
    shares.charge({"calm": 1}, others_take)
    shares.charge({"flood": 1}, 0.9)
    clock.now += 1.9  # whoever had to has rested, and both are still about
    pool = StreamPool(load_model("digits").net, 10, capacity=1, update_every=1)
    worker = Worker(pool, ONE_AT_A_TIME, torch.device("cpu"), watching, shares)
    asked = [worker.predict(stream, digits(1)) for stream in ("flood", "calm")]
    worker.start()
    assert [len(answer.result(PATIENCE).probabilities) for answer in asked] == [1, 1]
    worker.finish()
    assert [turn.updates for turn in watching.turns] == updates
    assert pool.info("flood").updates == pool.info("calm").updates == 1
