"""How long something takes, and who takes how many turns."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Action = Callable[[], object]
Timer = Callable[[Action], float]
"""Does something, and tells how many milliseconds that took."""


def timer_for(device: torch.device) -> Timer:
    """The clock on a CPU; on CUDA events, on a device that has nothing else to do.

    Example:
        >>> timer_for(torch.device("cpu"))(lambda: sum(range(1000))) > 0
        True
    """
    if device.type != "cuda":
        return _by_the_clock

    def by_events(action: Action) -> float:
        with torch.cuda.device(device):
            begin, end = _event(), _event()
            torch.cuda.synchronize()
            begin.record()
            action()
            end.record()
            end.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return milliseconds

    return by_events


def _by_the_clock(action: Action) -> float:
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Budget:
    """When somebody has had enough rounds.

    Example:
        >>> Budget(seconds=1, least=2).is_spent([800, 300])
        True
        >>> Budget(seconds=1, least=3).is_spent([800, 300])
        False
    """

    seconds: float
    least: int = 3
    """Rounds that are made however long they take."""
    most: int = 200

    def is_spent(self, milliseconds: list[float]) -> bool:
        """After rounds that took so long."""
        rounds = len(milliseconds)
        out_of_time = sum(milliseconds) >= 1000 * self.seconds
        return rounds >= self.most or (rounds >= self.least and out_of_time)


def take_turns(
    rounds: Mapping[str, Action],
    timer: Timer,
    budget: Budget,
    finished: Callable[[str], None] = lambda _: None,
) -> dict[str, list[float]]:
    """One round of each in turn, so that a slow moment of the machine hits all alike.

    Args:
        rounds: What a round is, by name.
        timer: How long one takes.
        budget: Of each; who has spent it drops out, and the others go on.
        finished: Is told who drops out.

    Returns:
        Milliseconds of every round, by name.

    Example:
        >>> costs = {"cheap": 200.0, "dear": 900.0}
        >>> turns = {name: lambda name=name: name for name in costs}
        >>> times = take_turns(turns, lambda turn: costs[turn()], Budget(seconds=1, least=1))
        >>> {name: len(taken) for name, taken in times.items()}
        {'cheap': 5, 'dear': 2}
    """
    times: dict[str, list[float]] = {name: [] for name in rounds}
    going = list(rounds)
    while going:
        for name in going:
            times[name].append(timer(rounds[name]))
        for name in [name for name in going if budget.is_spent(times[name])]:
            going.remove(name)
            finished(name)
    return times
