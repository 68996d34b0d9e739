"""Who is measured, and in which state: with a full bank, as after some time on a stream."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rotta.adapters.choice import MethodChoice
from rotta.adapters.methods import PAPER_METHODS
from rotta.bench.floor import Bare, Floor
from rotta.bench.plain import FILE, find_plain
from rotta.bench.workload import BANK, Workload

Role = Literal["floor", "bare", "plain", "rotta", "other"]

DEAR = "cotta"
"""Up to 34 passes per batch: left out where there is little time."""

_WAYS_ON_CUDA = [
    MethodChoice("rotta", {"graphs": False}),
    MethodChoice("rotta", {"precision": "float16"}),
    MethodChoice("rotta", {"precision": "bfloat16"}),
]
"""RoTTA as users get it replays CUDA graphs in float32."""


class Method(Protocol):
    """What can be measured."""

    def predict(self, x: Tensor) -> Tensor:
        """Logits; nothing changes."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits; then learn."""


@dataclass(frozen=True)
class Subject:
    """Somebody to measure."""

    name: str
    """A method as it was typed, or a role."""
    role: Role
    build: Callable[[], Method]
    """Afresh, with a full bank; equal every time."""


def default_methods(device: torch.device, quick: bool) -> list[MethodChoice]:
    """The paper's methods; on CUDA also RoTTA's slower and faster ways; without CoTTA if ``quick``.

    Example:
        >>> [choice.label for choice in default_methods(torch.device("cpu"), quick=True)]
        ['source', 'bn', 'pl', 'tent', 'lame', 'note', 'rotta']
    """
    usual = [MethodChoice(name, {}) for name in PAPER_METHODS if not (quick and name == DEAR)]
    return [*usual, *_WAYS_ON_CUDA] if device.type == "cuda" else usual


def make_subjects(
    load: Workload, methods: Sequence[MethodChoice], plain_file: Path = FILE
) -> list[Subject]:
    """The floor, the bare network, RoTTA in all ways asked for, the plain RoTTA, the others.

    The plain RoTTA is there if RoTTA is, and its file.

    Raises:
        ValueError: A method cannot be built on this network.
    """
    subjects = [
        Subject("floor", "floor", lambda: Floor(load.net, load.images[:BANK])),
        Subject("bare", "bare", lambda: Bare(load.net)),
    ]
    ways = [choice for choice in methods if choice.name == "rotta"]
    subjects += [Subject(way.label, "rotta", partial(_build, way.build, load)) for way in ways]
    plain = find_plain(plain_file)
    if ways and plain is not None:
        subjects.append(Subject("plain", "plain", partial(_build, plain, load)))
    others = [choice for choice in methods if choice.name != "rotta"]
    subjects += [Subject(o.label, "other", partial(_build, o.build, load)) for o in others]
    for subject in subjects:
        subject.build()  # what cannot be built should say so before minutes of measuring
    return subjects


def _build(make: Callable[[Any, int], Any], load: Workload) -> Method:
    method: Any = make(load.net, load.num_classes)
    bank = getattr(method, "bank", None)
    if bank is not None:
        fill(bank, load, load.num_classes)
    built: Method = method
    return built


def fill(bank: Any, load: Workload, num_classes: int) -> None:
    """Present as many samples as a bank has places, of all classes in turn, so that all stay.

    A network with random weights may predict one class for everything, of which a balanced bank
    would hold a few only, and updates would be cheaper than they are. Full banks stay full.

    Args:
        bank: With ``capacity``, ``insert`` and ``len``.
        load: Whose images to present.
        num_classes: C.
    """
    number = torch.arange(bank.capacity, device=load.device)
    uncertainty = torch.full((bank.capacity,), math.log(num_classes), device=load.device)
    images = load.images[number % len(load.images)]
    bank.insert(images, number % num_classes, uncertainty)
    assert len(bank) == bank.capacity
