"""A few numbers on their way from the device to the host."""

import torch
from torch import Tensor


class ToHost:
    """A copy on the host that is asked for now and read later.

    To read it waits for what was asked of the device before, but for nothing after, so a device
    that was given other work meanwhile is never idle.

    Args:
        value: On any device; small.

    Example:
        >>> ToHost(torch.tensor([1.0, 2.0])).read().tolist()
        [1.0, 2.0]
    """

    def __init__(self, value: Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        self._value = value
        if value.is_cuda:
            there = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self._value = there.copy_(value, non_blocking=True)
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record(torch.cuda.current_stream(value.device))

    def read(self) -> Tensor:
        """The value, once it is there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._value
