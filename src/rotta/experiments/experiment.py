"""What an experiment of the paper is: streams, the methods on them, and how to show the errors."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rotta.report.beside import Grid
from rotta.report.curves import Curves, draw_curves
from rotta.results import Result

_FINGERPRINT_DIGITS = 12


@dataclass(frozen=True)
class Training:
    """A source model that is trained before the walks, once, and kept."""

    name: str
    dataset: str
    domain: str
    arch: str
    init: str | None
    """Weights to start from, as ``rotta train --init`` takes them."""
    epochs: int
    lr: float
    batch_size: int
    weight_decay: float = 5e-4
    label_smoothing: float = 0.0
    image_size: int | None = None
    seed: int = 0
    limit: int | None = None
    """Only the first so many training images."""

    @property
    def full_name(self) -> str:
        """The name, and a few letters that another setting would change."""
        stated = json.dumps(asdict(self), sort_keys=True)
        return f"{self.name}-{hashlib.sha256(stated.encode()).hexdigest()[:_FINGERPRINT_DIGITS]}"


@dataclass(frozen=True)
class Variant:
    """A stream, and the methods that walk along it: one block of the results."""

    name: str
    dataset: str
    """A name of ``DATASETS``."""
    source: str | Training
    methods: tuple[str, ...]
    """As ``rotta run --methods`` takes them: ``rotta:alpha=0.5``."""
    setting: str = "ptta"
    delta: float = 0.1
    order: int | tuple[str, ...] | None = None
    visits: int = 1
    batch_size: int = 64
    split: str = "test"
    image_size: int | None = None

    @property
    def source_name(self) -> str:
        """What results call the source model."""
        return self.source if isinstance(self.source, str) else self.source.full_name


Blocks = Mapping[str, Result]
"""Results by the names of variants; those that were not run are missing."""


@dataclass(frozen=True)
class Presentation:
    """What people are shown of the results."""

    grids: tuple[Grid, ...] = ()
    curves: tuple[Curves, ...] = ()
    remarks: tuple[str, ...] = ()
    """Sentences in Markdown."""
    draw_curves: Callable[[Curves, Path], None] = draw_curves
    """Writes a figure of curves into a file."""


def _nothing(_: Blocks) -> Presentation:
    return Presentation()


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    variants: tuple[Variant, ...] = ()
    present: Callable[[Blocks], Presentation] = _nothing
    draw: Callable[[Path], list[Path]] | None = None
    """For pictures that need no walk: writes them into a folder."""
    drawn_from: tuple[str, ...] = ()
    """Datasets that the pictures need."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """What it needs."""
        needed = (*self.drawn_from, *(variant.dataset for variant in self.variants))
        return tuple(dict.fromkeys(needed))
