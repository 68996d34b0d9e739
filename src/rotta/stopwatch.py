"""How long a method takes per batch."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

_WARM_UP = 3  # calls in which memory is allocated and kernels are chosen


class Stopwatch:
    """A method that notes how long each call takes.

    Args:
        method: What is timed.
        device: Where it computes; on CUDA, events time it without waiting for it.

    Example:
        >>> timed = Stopwatch(lambda x: x + 1)
        >>> timed(torch.zeros(1)).item(), timed.mean_ms() > 0
        (1.0, True)
    """

    def __init__(
        self, method: Callable[[Tensor], Tensor], device: torch.device | str = "cpu"
    ) -> None:
        self._method = method
        self._device = torch.device(device)
        self._milliseconds: list[float] = []
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def __call__(self, x: Tensor) -> Tensor:
        """Call the method and note the time."""
        if self._device.type != "cuda":
            start = time.perf_counter()
            result = self._method(x)
            self._milliseconds.append(1000 * (time.perf_counter() - start))
            return result
        begin, end = _event(), _event()
        with torch.cuda.device(self._device):
            begin.record()
            result = self._method(x)
            end.record()
        self._events.append((begin, end))
        return result

    def reset(self) -> None:
        """Reset the method, if it can be; that is not timed."""
        if hasattr(self._method, "reset"):
            self._method.reset()

    def mean_ms(self) -> float:
        """See :func:`mean_ms`; waits for a GPU to finish the calls."""
        self._read_events()
        return mean_ms(self._milliseconds)

    def seconds(self) -> float:
        """Of all calls together; waits for a GPU to finish them."""
        self._read_events()
        return sum(self._milliseconds) / 1000

    def charge(self, milliseconds: float) -> None:
        """Add to the last call what it would have taken, had others not done it already."""
        self._read_events()
        self._milliseconds[-1] += milliseconds

    def state(self) -> dict[str, Tensor]:
        """How long each call took, for :meth:`restore`; waits for a GPU to finish them."""
        self._read_events()
        return {"milliseconds": torch.tensor(self._milliseconds, dtype=torch.float64)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from the calls of another."""
        calls = state["milliseconds"]
        if not isinstance(calls, Tensor) or calls.dtype != torch.float64 or calls.ndim != 1:
            raise ValueError("milliseconds that are no list of numbers")
        self._milliseconds = calls.tolist()

    def _read_events(self) -> None:
        if self._events:
            torch.cuda.synchronize(self._device)
            self._milliseconds += [begin.elapsed_time(end) for begin, end in self._events]
            self._events.clear()


def mean_ms(calls: Sequence[float]) -> float:
    """Mean over all calls but the first few.

    Not the median: where few batches bring an update, it would not show what updates cost.

    Args:
        calls: How many milliseconds each took.

    Example:
        >>> mean_ms([100.0, 50.0, 50.0, 10.0, 12.0])
        11.0
    """
    counted = calls[_WARM_UP:] or calls
    return statistics.fmean(counted) if counted else float("nan")


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
