"""Passes of streams through the network, launched as a whole on CUDA where that pays."""

from collections import defaultdict
from collections.abc import Callable

import torch
from torch import Tensor

from rotta.adapters.unlearnt import FOLLOW_EVERY, share_of_many
from rotta.nn.cuda_graphs import CudaGraphs, Result
from rotta.pool.network import PooledNetwork
from rotta.pool.numbers import Numbers
from rotta.pool.options import Options
from rotta.pool.update import Lesson, follow, update

_RECORDED = 256  # images at most: with more the device is busy longer than launching takes
_FEWEST_SIZES = 16  # that are recorded: all to which predictions are rounded up


class Passes:
    """Predictions and updates by rows of the table.

    What is recorded knows nothing of the table, which may grow: a row's numbers go in and out.

    Args:
        network: Serves all streams.
        numbers: Theirs; updates change them.
        options: RoTTA's.
    """

    def __init__(self, network: PooledNetwork, numbers: Numbers, options: Options) -> None:
        self._network = network
        self._numbers = numbers
        self._options = options
        # by what they do; a bank may be of any size up to its capacity
        most = max(_FEWEST_SIZES, options.capacity)
        self._graphs: dict[str, CudaGraphs] = defaultdict(lambda: CudaGraphs(most))

    def taught(self, x: Tensor, rows: Tensor) -> Tensor:
        """What teachers say.

        Args:
            x: Images, (B, C, H, W).
            rows: Whose teacher each is for, (B,).

        Returns:
            Logits, (B, num_classes).
        """
        return self._logits("taught", self._numbers.of_teachers, x, rows)

    def unlearnt(self, x: Tensor, rows: Tensor) -> Tensor:
        """The same of networks that only follow the statistics."""
        return self._logits("unlearnt", self._numbers.of_unlearnt, x, rows)

    def update(self, rows: Tensor, lesson: Lesson) -> None:
        """Let some streams learn.

        Args:
            rows: Theirs, (G,).
            lesson: What they learn from.
        """
        held = self._numbers.gathered(rows)
        moved = self._run("update", len(lesson.weak), self._updated, held, *lesson)
        self._numbers.put_back(rows, moved)

    def follow(self, rows: Tensor, weak: Tensor, steps: int) -> None:
        """Let the unlearnt networks of some streams keep up.

        Args:
            rows: Theirs, (G,).
            weak: What their banks hold, (N·G, C, H, W), as in a lesson.
            steps: For how many updates.
        """
        held = self._numbers.of_unlearnt(rows)
        function = self._followed if steps == 1 else self._caught_up
        moved = self._run(function.__name__, len(weak), function, weak, *held)
        self._numbers.put_unlearnt(rows, moved)

    def _updated(self, held: Tensor, *lesson: Tensor) -> Tensor:
        alpha, nu = self._options.alpha, self._options.nu
        return update(self._network, held, Lesson(*lesson), alpha=alpha, nu=nu)

    def _followed(self, weak: Tensor, statistics: Tensor, affine: Tensor) -> Tensor:
        return follow(self._network, weak, statistics, affine, alpha=self._options.alpha)

    def _caught_up(self, weak: Tensor, statistics: Tensor, affine: Tensor) -> Tensor:
        alpha = share_of_many(self._options.alpha, FOLLOW_EVERY)
        return follow(self._network, weak, statistics, affine, alpha=alpha)

    def _logits(
        self,
        whose: str,
        numbers: Callable[[Tensor], tuple[Tensor, Tensor]],
        x: Tensor,
        rows: Tensor,
    ) -> Tensor:
        """By a recording, of which there is one for each of a few sizes, if it is small enough."""
        count = len(x)
        if x.is_cuda and count <= _RECORDED:
            more = rounded_up(count) - count
            x, rows = (torch.cat([each, each[:more]]) if more else each for each in (x, rows))
        return self._run(whose, count, self._network.logits, x, *numbers(rows))[:count]

    def _run(
        self, what: str, images: int, function: Callable[..., Result], *inputs: Tensor
    ) -> Result:
        if not inputs[0].is_cuda or images > _RECORDED:
            return function(*inputs)
        return self._graphs[what].run(function, *inputs)


def rounded_up(count: int) -> int:
    """The next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: a third more at most, and few different sizes.

    Example:
        >>> [rounded_up(count) for count in (1, 3, 5, 7, 9, 200)]
        [1, 3, 6, 8, 12, 256]
    """
    power = 1 << (count - 1).bit_length()
    less = power * 3 // 4
    return less if less >= count else power
