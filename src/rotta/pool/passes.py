"""Passes of several streams through the network, launched as a whole on CUDA where that pays."""

from collections import defaultdict
from collections.abc import Callable

import torch
from torch import Tensor

from rotta.nn.cuda_graphs import CudaGraphs, Result
from rotta.pool.network import PooledNetwork
from rotta.pool.numbers import Numbers
from rotta.pool.options import Options
from rotta.pool.update import Lesson, update

_RECORDED = 256  # images at most: with more the device is busy longer than launching takes


class Passes:
    """Predictions and updates by rows of the table.

    Args:
        network: Serves all streams.
        numbers: Theirs; updates change them.
        options: RoTTA's.
    """

    def __init__(self, network: PooledNetwork, numbers: Numbers, options: Options) -> None:
        self._network = network
        self._numbers = numbers
        self._options = options
        self._graphs: dict[str, CudaGraphs] = defaultdict(CudaGraphs)  # by what they do
        self._rows = numbers.table.shape[1]  # of the table that they know of

    def taught(self, x: Tensor, rows: Tensor) -> Tensor:
        """What teachers say.

        Args:
            x: Images, (B, C, H, W).
            rows: Whose teacher each is for, (B,).

        Returns:
            Logits, (B, num_classes).
        """
        return self._filled_up(self._taught, x, rows)

    def unlearnt(self, x: Tensor, rows: Tensor) -> Tensor:
        """The same of networks that only follow the statistics."""
        return self._filled_up(self._unlearnt, x, rows)

    def update(self, lesson: Lesson) -> None:
        """Let some streams learn; recordings are for full banks, others have too many sizes."""
        if len(lesson.weak) == self._options.capacity * len(lesson.rows):
            self._run(len(lesson.weak), self._update, *lesson)
        else:
            self._update(*lesson)

    def _taught(self, x: Tensor, rows: Tensor) -> Tensor:
        return self._network.logits(x, *self._numbers.of_teachers(rows))

    def _unlearnt(self, x: Tensor, rows: Tensor) -> Tensor:
        return self._network.logits(x, *self._numbers.of_unlearnt(rows))

    def _update(self, *lesson: Tensor) -> None:
        alpha, nu = self._options.alpha, self._options.nu
        update(self._network, self._numbers, Lesson(*lesson), alpha=alpha, nu=nu)

    def _filled_up(
        self, function: Callable[[Tensor, Tensor], Tensor], x: Tensor, rows: Tensor
    ) -> Tensor:
        """By a recording, of which there is one for each of a few sizes, if it is small enough."""
        if not x.is_cuda or len(x) > _RECORDED:
            return function(x, rows)
        more = rounded_up(len(x)) - len(x)
        filled = (torch.cat([each, each[:more]]) if more else each for each in (x, rows))
        return self._run(len(x), function, *filled)[: len(x)]

    def _run(self, images: int, function: Callable[..., Result], *inputs: Tensor) -> Result:
        if not inputs[0].is_cuda or images > _RECORDED:
            return function(*inputs)
        if self._rows != self._numbers.table.shape[1]:  # it has grown, and lies elsewhere now
            self._graphs.clear()
            self._rows = self._numbers.table.shape[1]
        return self._graphs[function.__name__].run(function, *inputs)


def rounded_up(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: a third more at most, and few different sizes.

    Example:
        >>> [rounded_up(count) for count in (1, 3, 5, 7, 9, 200)]
        [1, 3, 6, 8, 12, 256]
    """
    power = 1 << (count - 1).bit_length()
    less = power * 3 // 4
    return less if less >= count else power
