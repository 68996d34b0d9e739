"""One method along one stream, with everything noted on the way."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from rotta.checkpoint import Checkpoint, Resumable
from rotta.evaluate import Step, evaluate
from rotta.incidents import Incidents
from rotta.metrics import BankLog, Course, ErrorRates, Memory, VisitErrors
from rotta.results import BankCourse, SeedResult, Windows
from rotta.stopwatch import Stopwatch
from rotta.streams import Stream

SECONDS_PER_LOOK = 0.2
"""At least, between two looks at the error so far: each waits for the device."""


class Notes:
    """What is noted about a walk, read only when somebody looks.

    Args:
        stream: Along which it goes.
        first_batch: Where it begins: at the start of a window, see
            :class:`~rotta.metrics.Course`.
    """

    def __init__(self, stream: Stream, first_batch: int = 0) -> None:
        classes = stream.dataset.classes
        self._per_domain = ErrorRates(stream.domains, stream.device)
        self._per_class = ErrorRates(classes, stream.device)
        self._per_visit = VisitErrors(stream.visits, len(stream.domains), stream.device)
        self._course = Course(len(classes), len(stream), stream.device, first_batch)
        self._bank = BankLog(len(classes))
        self._incidents = Incidents(stream.domains)

    def add(self, step: Step, method: object) -> None:
        """Note a step, and what the method tells about itself.

        Args:
            step: What it predicted.
            method: May have a ``bank``, which is looked into at the end of a window, ``events``
                and ``skipped``.
        """
        self._per_domain.add(step.batch.domain, step.wrong)
        self._per_class.add(step.batch.y, step.wrong)
        self._per_visit.add(step.batch.visit, step.batch.domain, step.wrong)
        self._course.add(step)
        self._incidents.add(
            step.batch, getattr(method, "events", ()), getattr(method, "skipped", {})
        )
        bank: Memory | None = getattr(method, "bank", None)
        if bank is not None and self._course.at_the_end_of_a_window:
            self._bank.note(bank, self._course.samples[-1])

    def error(self) -> float:
        """So far: mean over the domains that were reached, in percent."""
        return self._per_domain.average()

    def result(self, ms_per_batch: float) -> SeedResult:
        """All notes, on the host."""
        bank, course = self._bank, self._course
        return SeedResult(
            average_error=self.error(),
            per_domain=self._per_domain.percent(),
            per_class=self._per_class.percent(),
            ms_per_batch=ms_per_batch,
            windows=Windows(
                course.samples,
                _rounded(course.error()),
                _rounded(course.entropy()),
                _rounded(course.balance()),
            ),
            bank=BankCourse(bank.samples, bank.counts(), _rounded(bank.age()))
            if bank.samples
            else None,
            per_visit=self._per_visit.percent(),
            events=self._incidents.events,
            skipped=self._incidents.skipped(),
        )

    def state(self) -> dict[str, Any]:
        """All notes, for :meth:`restore`."""
        return {name: part.state() for name, part in self._parts().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the notes of another on the same walk."""
        for name, part in self._parts().items():
            part.restore(state[name])

    def join(self, state: Mapping[str, Any]) -> None:
        """Add the notes of a leg that began where these end.

        Only of methods that have neither bank nor guard, and skip nothing.
        """
        self._per_domain.join(state["per_domain"])
        self._per_class.join(state["per_class"])
        self._per_visit.join(state["per_visit"])
        self._course.join(state["course"])

    def _parts(self) -> dict[str, Resumable]:
        return {
            "per_domain": self._per_domain,
            "per_class": self._per_class,
            "per_visit": self._per_visit,
            "course": self._course,
            "bank": self._bank,
            "incidents": self._incidents,
        }


def _rounded(course: Sequence[float]) -> list[float]:
    """Enough for a curve; all digits would double the file."""
    return [round(value, 4) for value in course]


def walk(
    method: Callable[[Tensor], Tensor],
    stream: Stream,
    look: Callable[[int, float], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> SeedResult:
    """Lead a method along a stream and score it.

    Args:
        method: From images (B, 3, H, W) to logits (B, C), on the stream's device; with a
            ``reset()`` for stationary settings, and a ``bank`` if it has a memory; ``events`` and
            ``skipped``, as methods here have them, become part of the result.
        stream: Gone through once.
        look: Is told now and then how many batches are done, and the error so far in percent.
        checkpoint: Kept on the way; if there is one already, the walk goes on from it, and brings
            what it would have brought without a break, but for times.

    Raises:
        ValueError: The checkpoint is of another walk, or damaged.
        OSError: The checkpoint cannot be written.

    Example:
        >>> import rotta
        >>> stream = rotta.Stream(rotta.load_dataset("digits"), batch_size=300)
        >>> scored = walk(rotta.load_source("digits"), stream)
        >>> round(scored.average_error, 2), scored.windows.samples
        (0.89, [300, 600, 897])
    """
    notes = Notes(stream)
    timed = Stopwatch(method, stream.device)
    last_look = -math.inf
    parts: dict[str, Resumable] = {"notes": notes, "stopwatch": timed}
    before = 0 if checkpoint is None else checkpoint.resume(stream, parts)
    rest = stream.starting_at(before) if before else stream
    for done, step in enumerate(evaluate(timed, rest), start=before + 1):
        notes.add(step, method)
        if look is not None and time.monotonic() - last_look >= SECONDS_PER_LOOK:
            look(done, notes.error())
            last_look = time.monotonic()
        if checkpoint is not None and checkpoint.is_due():
            checkpoint.keep(done, stream, parts)
    return notes.result(timed.mean_ms())
