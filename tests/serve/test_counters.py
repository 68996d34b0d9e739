"""What answers say of a stream's past is what the pool knows."""

from pathlib import Path

import torch
from live_server import PATIENCE, digits

from rotta.serve import Service, load_model


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
