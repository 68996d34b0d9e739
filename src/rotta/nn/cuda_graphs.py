"""CUDA graphs: what is launched again and again in the same way is launched as a whole."""

import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

_WARM_UP = 3  # calls in which kernels are chosen and optimisers make their state
_MOST_SHAPES = 1024  # of inputs whose calls are counted

_one_at_a_time = threading.Lock()  # CUDA records one graph in a process

Result = TypeVar("Result", bound=Tensor | None)
Key = tuple[str, tuple[tuple[torch.Size, torch.dtype, tuple[int, ...]], ...]]


class CudaGraphs:
    """Runs functions; records each once for the shapes it is called with, and replays it then.

    A function may change tensors that it knows of itself, as long as they stay where they are:
    whoever replaces one calls :meth:`forget`. The first calls go to the function itself, and so do
    all when one cannot be recorded, which is said once. The graphs share their memory, so no two
    may run at the same time.

    Args:
        most: How many shapes are recorded; calls with others go to the function.

    Example:
        >>> graphs = CudaGraphs()
        >>> def double(x: Tensor) -> Tensor:
        ...     return 2 * x
        >>> graphs.run(double, torch.ones(2))  # on a CPU there is nothing to record
        tensor([2., 2.])
    """

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._calls: dict[Key, int] = {}
        self._recorded: dict[Key, _Recording] = {}
        self._usable = True

    def run(self, function: Callable[..., Result], *inputs: Tensor) -> Result:
        """Call a function.

        Args:
            function: Of tensors on one device to a tensor, or to nothing; known by its name.
            inputs: What it is called with.

        Returns:
            What it gives; a tensor is the caller's.
        """
        key = function.__name__, tuple((t.shape, t.dtype, t.stride()) for t in inputs)
        if key not in self._recorded and not self._record(key, function, inputs):
            return function(*inputs)
        return cast(Result, self._recorded[key].replay(inputs))

    def forget(self) -> None:
        """Record anew: tensors that the functions know of are elsewhere now."""
        self._calls.clear()
        self._recorded.clear()

    def __getstate__(self) -> dict[str, Any]:
        """A copy records for itself: the graphs know where the tensors of this one are."""
        return self.__dict__ | {"_calls": {}, "_recorded": {}}

    def _record(self, key: Key, function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> bool:
        room = self._usable and len(self._recorded) < self._most
        if not (room and all(t.is_cuda for t in inputs)):
            return False
        if len(self._calls) == _MOST_SHAPES:  # most of which came once and never again
            self._calls.clear()
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] <= _WARM_UP:
            return False
        memory = next((recording.memory for recording in self._recorded.values()), None)
        try:
            self._recorded[key] = _Recording(function, inputs, memory)
        except RuntimeError as error:
            self._usable = False
            warnings.warn(
                f"this network cannot be replayed as a CUDA graph, so it runs without: {error}",
                stacklevel=2,
            )
        return self._usable


@cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """One for all graphs on a device: memory is shared only among those of one stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class _Recording:
    """One graph, with the places that its inputs are put into."""

    def __init__(
        self, function: Callable[..., Any], inputs: tuple[Tensor, ...], memory: Any
    ) -> None:
        self._inputs = [t.clone(memory_format=torch.preserve_format) for t in inputs]
        self._graph = torch.cuda.CUDAGraph()
        device = inputs[0].device
        stream = _recording_stream(device)
        with (
            _one_at_a_time,
            torch.cuda.device(device),
            # a recording that fails leaves its stream the current one: this puts back the caller's
            torch.cuda.stream(stream),
            # other threads may compute meanwhile
            torch.cuda.graph(self._graph, memory, stream, capture_error_mode="thread_local"),
        ):
            self._output = function(*self._inputs)

    @property
    def memory(self) -> Any:
        """For another graph to share."""
        return self._graph.pool()

    def replay(self, inputs: tuple[Tensor, ...]) -> Tensor | None:
        torch._foreach_copy_(self._inputs, list(inputs))
        self._graph.replay()
        # the next replay overwrites it
        return None if self._output is None else self._output.clone()
