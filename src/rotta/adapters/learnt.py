"""What a method has learnt, apart from what it was given: to be left out, kept and put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rotta.adapters.method_state import EXTRA

if TYPE_CHECKING:
    from rotta.adapters.base import Adapter

UNLEARNT = "unlearnt."
"""How names of the network begin that never learns, see :mod:`rotta.adapters.unlearnt`."""

_NO_STATISTICS = ("bank.", "class_mix.")  # how names of buffers begin that hold samples


class Learnt:
    """What a guard may see and do of a method, which has noted its start.

    Args:
        method: Whose.
    """

    def __init__(self, method: "Adapter") -> None:
        self._method = method
        self._start = method.start

    @property
    def learns(self) -> bool:
        """Whether it learns anything at all."""
        return self.optimiser is not None

    @property
    def optimiser(self) -> torch.optim.Optimizer | None:
        """Its optimiser, if it has one."""
        return getattr(self._method, "optimiser", None)

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), by the parameters of the start and the statistics of now."""
        return self._method.infer_unlearnt(x)

    def run_fast(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Call a function of tensors, known by its name, as the method calls its own."""
        return self._method.run_fast(function, *inputs)

    def parameters(self) -> tuple[list[Tensor], list[Tensor]]:
        """Those of its own, now and at the start."""
        return self._beside_the_start(self._parameters())

    def statistics(self) -> tuple[list[Tensor], list[Tensor]]:
        """Those that it tracks, now and at the start."""
        return self._beside_the_start(self._statistics())

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of its own parameters and statistics."""
        own = self._parameters() | self._statistics()
        copies = {name: torch.empty_like(tensor) for name, tensor in own.items()}
        _copy(list(own.values()), list(copies.values()))  # all at once: there are hundreds
        return copies

    def put_back(self, snapshot: dict[str, Tensor] | None) -> None:
        """Return to a snapshot, or to the start, with a fresh optimiser and an empty bank.

        Values are copied into the tensors that are there. Counters and random state go on, and so
        does the learning rate, which is the guard's to set.
        """
        extra: dict[str, Any] = self._method.get_extra_state()
        if "optimiser" in extra:
            moments = self._start[EXTRA]["optimiser"]["state"]
            extra["optimiser"] = {**extra["optimiser"], "state": moments}
        self._method.load_state_dict({**self._start, **(snapshot or {}), EXTRA: extra})

    def set_rate(self, factor: float) -> None:
        """Learn with so many times the learning rate of the start."""
        if self.optimiser is not None:
            groups = self._start[EXTRA]["optimiser"]["param_groups"]
            for group, at_start in zip(self.optimiser.param_groups, groups, strict=True):
                group["lr"] = factor * at_start["lr"]
            self._method.forget_recorded()

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Within, parameters are those of the start, in the same tensors."""
        own, start = self.parameters()
        held = [tensor.detach().clone() for tensor in own]
        _copy(start, own)
        try:
            yield
        finally:
            _copy(held, own)

    def _parameters(self) -> dict[str, Tensor]:
        parameters = self._method.named_parameters()
        return self._own({name: p for name, p in parameters if not name.startswith(UNLEARNT)})

    def _statistics(self) -> dict[str, Tensor]:
        buffers = dict(self._method.named_buffers())
        tracked = {n: t for n, t in buffers.items() if not n.startswith(_NO_STATISTICS)}
        return self._own(tracked)

    def _own(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Without those that are shared with the source network, derived, or counts."""
        given = addresses(self._method.source_net)
        return {
            name: tensor
            for name, tensor in tensors.items()
            if name in self._start and tensor.is_floating_point() and tensor.data_ptr() not in given
        }

    def _beside_the_start(self, own: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        for name, tensor in own.items():
            # brought along once: what is recorded as a graph can copy nothing from elsewhere
            self._start[name] = self._start[name].to(tensor.device)
        now = [tensor.detach() for tensor in own.values()]
        return now, [self._start[name].to(tensor.dtype) for name, tensor in own.items()]


def addresses(net: nn.Module) -> set[int]:
    """Where a network's parameters lie; what holds nothing lies nowhere."""
    return {p.data_ptr() for p in net.parameters() if p.numel()}


@torch.no_grad()
def _copy(values: list[Tensor], into: list[Tensor]) -> None:
    if into:
        torch._foreach_copy_(into, values)
