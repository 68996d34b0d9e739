"""What a call costs in operations: on a GPU each is a launch, however many streams it is for."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from separate_models import SMALL, images, small_net
from torch.utils._python_dispatch import TorchDispatchMode

from rotta.adapters.cadence import cadence
from rotta.pool import Request, StreamPool, engine
from rotta.pool.banks import Newcomers
from rotta.pool.lessons import until_updates

EVERY = SMALL["update_every"]
FEW, MANY = 8, 48


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts them, views included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counted: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counted[func.__name__.split(".")[0]] += 1
        return func(*args, **(kwargs or {}))


def operations(act: Callable[[], object]) -> Counter[str]:
    seen = Operations()
    with seen:
        act()
    return seen.counted


def requests(streams: int, seed: int) -> list[Request]:
    x = images(streams, seed)
    return [Request(str(i), x[i : i + 1]) for i in range(streams)]


def begun(streams: int, batches: int) -> StreamPool:
    """All of them have seen so many images."""
    pool = StreamPool(small_net(), 4, **SMALL)
    for seed in range(batches):
        pool(requests(streams, seed))
    return pool


def test_predictions_of_many_streams_take_no_more_operations_than_of_few() -> None:
    few, many = (
        operations(partial(begun(streams, 1).predict, requests(streams, 9)))
        for streams in (FEW, MANY)
    )
    assert many == few


def test_banks_are_filled_by_a_few_operations() -> None:
    counted = []
    for streams in (FEW, MANY):
        pool = begun(streams, 1)
        pool.predict(requests(streams, 9))
        counted.append(sum(operations(pool.learn).values()))
    few, many = counted
    assert many - few < (MANY - FEW) // 2  # new rooms and old ones: not one for each stream


def test_updates_that_are_due_together_are_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_LEARNT_AT_ONCE", 1024)
    counted = []
    for streams in (FEW, MANY):
        pool = begun(streams, EVERY - 1)
        pool.predict(requests(streams, 9))
        counted.append(operations(pool.learn))
        assert pool.info("0").updates == 1
    few, many = counted
    sizes = 4  # of banks, at most, that such streams have: a pass for each
    for operation in ("convolution", "grid_sampler_2d", "batch_norm_update_stats"):
        assert few[operation] <= many[operation] <= sizes * few[operation]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 15)), min_size=1, max_size=5),
    st.integers(1, 7),
)
def test_many_requests_are_cut_as_each_would_be(streams: list[tuple[int, int]], every: int) -> None:
    seen, sizes = (np.array(column) for column in zip(*streams, strict=True))
    starts = sizes.cumsum() - sizes
    nothing = torch.empty(int(sizes.sum()), 3, 2, 2), np.zeros(1, dtype=np.int64), np.zeros(1)
    newcomers = Newcomers(np.arange(len(seen)), starts, sizes, *nothing)
    cuts: dict[int, list[tuple[slice, bool]]] = {row: [] for row in range(len(seen))}
    for part, due in until_updates(newcomers, seen, every):
        columns = part.rows.tolist(), part.starts.tolist(), part.sizes.tolist()
        for row, start, size in zip(*columns, strict=True):
            own = start - int(starts[row])
            cuts[row].append((slice(own, own + size), row in due))
    for row, (before, size) in enumerate(streams):
        assert cuts[row] == list(cadence(before, size, every))
