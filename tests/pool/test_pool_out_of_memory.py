"""When memory runs out, no stream gets what is another's, and nothing is half done."""

from typing import Any

import pytest
import torch
from separate_models import SMALL, small_net
from torch.testing import assert_close

from rotta.pool import Request, StreamPool
from rotta.pool.bank_images import BankImages
from rotta.state_file import state_from_bytes

CLASSES = 4


def plain(value: float, side: int = 8) -> torch.Tensor:
    return torch.full((4, 3, side, side), value, dtype=torch.float64)


def no_memory(*_: object) -> None:
    raise torch.OutOfMemoryError("there is no memory left")


def held(pool: StreamPool, name: str) -> dict[str, Any]:
    state = state_from_bytes(pool.state(name), "stream", name)
    return {part: state[part] for part in ("numbers", "bank", "generator")}


def test_a_bank_without_its_images_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = StreamPool(small_net(), CLASSES, **SMALL)
    pool([Request("gone", plain(0.7)), Request("kept", plain(0.1))])
    pool.delete("gone")  # its images are still where the next one's will be
    with monkeypatch.context() as patch:
        patch.setattr(BankImages, "move_in", no_memory)
        for name in ("new", "kept"):
            with pytest.raises(torch.OutOfMemoryError):
                pool([Request(name, plain(0.2))])
    assert len(pool.bank("new").images) == 0
    assert (pool.bank("kept").images == 0.1).all()
    pool([Request("new", plain(0.2))])
    assert (pool.bank("new").images == 0.2).all()


@pytest.mark.parametrize("side", [8, 9])
def test_a_state_that_has_no_room_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, side: int
) -> None:
    pool = StreamPool(small_net(), CLASSES, **SMALL)
    pool([Request("one", plain(0.1)), Request("other", plain(0.7, side))])
    before, other = held(pool, "one"), pool.state("other")
    with monkeypatch.context() as patch:
        patch.setattr(BankImages, "take", no_memory)
        with pytest.raises(torch.OutOfMemoryError):
            pool.restore("one", other)
    assert_close(held(pool, "one"), before, rtol=0, atol=0)
    pool.restore("one", other)
    assert (pool.bank("one").images == 0.7).all()
