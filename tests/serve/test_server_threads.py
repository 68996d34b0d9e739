"""How many threads a server computes with."""

from collections.abc import Iterator

import pytest
import torch

from rotta.serve.server import leave_a_core


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_one_core_is_left_for_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    left = []
    for _ in range(4):
        leave_a_core()
        left.append(torch.get_num_threads())
    assert left == [3, 2, 1, 1]


def test_who_says_how_many_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    leave_a_core()
    assert torch.get_num_threads() == 4
