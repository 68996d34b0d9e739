"""What answers say of a stream's past is what the pool knows."""

from pathlib import Path

import torch
from live_server import PATIENCE, digits
from test_turns import Watching

from rotta.guard.guard import LOOK_EVERY
from rotta.pool import StreamPool
from rotta.pool.numbers import TEACHER
from rotta.serve import Limits, Service, load_model
from rotta.serve.shares import Shares
from rotta.serve.worker import Worker


def test_images_that_show_nothing_are_not_counted_as_learnt(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    service = Service(load_model("digits"), store=tmp_path / "state.sqlite", guard=True)
    service.start()
    try:
        for _ in range(8):
            noise = torch.rand(16, 3, 32, 32, generator=generator)
            answer = service.worker.predict("wall", noise).result(PATIENCE)
        assert answer.counters.samples == 0
        assert answer.counters.alarms == 1
        for start in (0, 30, 60):
            answer = service.worker.predict("wall", digits(30, start)).result(PATIENCE)
        assert answer.counters.samples == 90
    finally:
        service.stop()


def test_an_alarm_that_is_raised_when_a_stream_is_frozen_is_counted() -> None:
    """What its guard has seen last is judged then."""
    pool, watching = StreamPool(load_model("digits").net, 10, guard=True), Watching()
    worker = Worker(pool, Limits(), torch.device("cpu"), watching, Shares())
    worker.start()
    for turn in range(LOOK_EVERY):
        if turn == LOOK_EVERY - 1:
            worker.ask(_harm).result(PATIENCE)
        worker.predict("a", digits(4, 4 * turn)).result(PATIENCE)
    worker.change("a", lambda pool: pool.freeze("a")).result(PATIENCE)
    answer = worker.predict("a", digits(4)).result(PATIENCE)
    assert (answer.counters.alarms, answer.counters.frozen) == (1, True)
    worker.change("a", lambda pool: pool.freeze("a", False)).result(PATIENCE)
    assert worker.predict("a", digits(4)).result(PATIENCE).counters.alarms == 1
    worker.finish()
    assert sum(turn.alarms for turn in watching.turns) == 1


def _harm(pool: StreamPool) -> None:
    stream = pool._residents.here("a")
    assert stream is not None
    pool._engine.numbers.of(stream.row)[TEACHER][2:] *= 50
