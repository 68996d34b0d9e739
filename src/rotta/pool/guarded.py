"""What a guard sees and does of one stream of a pool."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from rotta.pool.numbers import MOMENTS, SOURCE, STUDENT, TEACHER, UNLEARNT, Numbers

if TYPE_CHECKING:
    from rotta.pool.banks import Banks
    from rotta.pool.stream import Stream

_PARAMETERS = slice(2, 4), slice(6, 8)
_STATISTICS = slice(0, 2), slice(4, 6), UNLEARNT
_KEPT = {"teacher": TEACHER, "student": STUDENT, "unlearnt": UNLEARNT}


class GuardedStream:
    """The :class:`~rotta.guard.guard.Guarded` of a stream.

    Args:
        stream: Which.
        numbers: The table in which its numbers are.
        banks: In which its bank is.
        unlearnt: What it would predict for the images that the guard looks at, if it had learnt
            nothing, (B, num_classes); None if the guard does not look.
    """

    learns = True

    def __init__(
        self, stream: "Stream", numbers: Numbers, banks: "Banks", unlearnt: Tensor | None = None
    ) -> None:
        self._stream = stream
        self._numbers = numbers
        self._banks = banks
        self._unlearnt = unlearnt

    @property
    def optimiser(self) -> torch.optim.Optimizer | None:
        """What guards read of Adam: the means of the gradients, once there are any."""
        means = {"exp_avg": self._own[MOMENTS][:2]}
        state: dict[Any, Any] = {"γ and β": means} if self._stream.record.steps else {}
        return cast(torch.optim.Optimizer, SimpleNamespace(state=state))

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """As it was reckoned, for all streams that are looked at."""
        assert self._unlearnt is not None
        assert len(self._unlearnt) == len(x)
        return self._unlearnt

    def run_fast(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Call it: graphs are recorded for all streams together, or not at all."""
        return function(*inputs)

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        """γ and β of teacher and student, now and at the start."""
        return self._beside_the_start(_PARAMETERS)

    def statistics(self) -> tuple[list[Tensor], list[Tensor]]:
        """Of teacher, student and the unlearnt network, now and at the start."""
        return self._beside_the_start(_STATISTICS)

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of the parameters and statistics."""
        return {name: self._own[fields].clone() for name, fields in _KEPT.items()}

    def put_back(self, snapshot: dict[str, Tensor] | None) -> None:
        """Return to a snapshot, or to the start, with a fresh optimiser and an empty bank."""
        own = self._own
        own.copy_(self._numbers.of(SOURCE))
        for name, kept in (snapshot or {}).items():
            own[_KEPT[name]] = kept
        self._stream.record.steps = 0
        self._banks.clear(self._stream.row)

    def set_rate(self, factor: float) -> None:
        """Learn with so many times the learning rate of the start."""
        self._stream.record.rate = factor

    @property
    def _own(self) -> Tensor:
        return self._numbers.of(self._stream.row)

    def _beside_the_start(self, which: tuple[slice, ...]) -> tuple[list[Tensor], list[Tensor]]:
        own, start = self._own, self._numbers.of(SOURCE)
        return [own[fields] for fields in which], [start[fields] for fields in which]
