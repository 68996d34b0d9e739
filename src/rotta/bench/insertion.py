"""How long a bank takes to take in a batch."""

import statistics
from functools import partial

import torch

from rotta.bench.subjects import fill
from rotta.bench.timing import Action, Budget, Timer, take_turns
from rotta.bench.workload import BANK, Workload
from rotta.memory.cstu import CSTU

CLASSES = (10, 1000)

_WARM_UP = 3


def insertion_ms(load: Workload, timer: Timer, budget: Budget) -> dict[str, float]:
    """Insert 64 samples into a full CSTU of 64, with few and with many classes.

    Args:
        load: Whose images to insert.
        timer: How long that takes.
        budget: Of each number of classes.

    Returns:
        Median in milliseconds, by number of classes.
    """
    rounds = {str(classes): _insert(load, classes) for classes in CLASSES}
    for act in rounds.values():
        for _ in range(_WARM_UP):
            act()
    times = take_turns(rounds, timer, budget)
    return {classes: statistics.median(taken) for classes, taken in times.items()}


def _insert(load: Workload, classes: int) -> Action:
    bank = CSTU(BANK, classes).to(load.device)
    fill(bank, load, classes)
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(classes, (BANK,), generator=generator).to(load.device)
    uncertainty = torch.rand(BANK, generator=generator).to(load.device)
    return partial(bank.insert, load.images[:BANK], label, uncertainty)
