"""How much memory a round needs at its peak."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from rotta.bench.timing import Action

MEANING = {
    "cuda": "the most that was taken on the device at once: network, images, and all that the "
    "subject keeps and needs for a round, with the pools that CUDA graphs keep",
    "cpu": "the most that was allocated at once during a round, beyond what was there before it",
}
"""What the figure is, by type of device."""

_MIB = 2**20


class Held(NamedTuple):
    """Bytes that are in use on a GPU; none on the CPU, where only changes are measured."""

    allocated: int = 0
    of_graphs: int = 0
    """In which CUDA graphs compute: not allocated, but nobody else can use it."""

    def beyond(self, before: "Held") -> "Held":
        """What came since."""
        return Held(self.allocated - before.allocated, self.of_graphs - before.of_graphs)


def held_bytes(device: torch.device) -> Held:
    """What is in use now, without what is only kept for later."""
    if device.type != "cuda":
        return Held()
    index = torch.cuda.current_device() if device.index is None else device.index
    of_graphs = sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != (0, 0)
    )
    return Held(torch.cuda.memory_allocated(device), of_graphs)


def peak_mib(action: Action, device: torch.device, held_by_others: Held | None = None) -> float:
    """See :data:`MEANING`, in MiB.

    Args:
        action: A round.
        device: Where it computes.
        held_by_others: What they keep on a GPU meanwhile; it does not count.

    Example:
        >>> four_mib = lambda: torch.zeros(2**20).sum()
        >>> 4 <= peak_mib(four_mib, torch.device("cpu")) < 4.1
        True
    """
    if device.type != "cuda":
        return _peak_of_changes(action) / _MIB
    torch.cuda.reset_peak_memory_stats(device)
    action()
    torch.cuda.synchronize(device)
    allocated = torch.cuda.max_memory_allocated(device)
    own = Held(allocated, held_bytes(device).of_graphs).beyond(held_by_others or Held())
    return sum(own) / _MIB


def _peak_of_changes(action: Action) -> int:
    """Add up what the profiler saw allocated and freed."""
    with _silent_standard_error(), torch.autograd.profiler.profile(profile_memory=True) as seen:
        action()
    assert seen.kineto_results is not None
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in seen.kineto_results.events()
        if event.name() == "[memory]"
    )
    now = peak = 0
    for _, change in changes:
        now += change
        peak = max(peak, now)
    return peak


@contextmanager
def _silent_standard_error() -> Iterator[None]:
    """The profiler's libraries write to it without being asked."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
