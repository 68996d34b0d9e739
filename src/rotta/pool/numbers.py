"""What adapting changes in the network, for all streams in memory, in one table."""

import torch
from torch import Tensor

TEACHER, STUDENT, MOMENTS, UNLEARNT = slice(0, 4), slice(4, 8), slice(8, 12), slice(12, 14)
"""Of the network that predicts and the one that learns: μ, σ², γ and β. Of Adam: the means of the
gradients of γ and β, and those of their squares. Of the network that a guard compares with: μ and
σ²."""
FIELDS = 14
SOURCE = 0
"""The row of the network as it was given; no stream has it."""

_GROWN = 64  # rows at least, by which the table grows


class Numbers:
    """A table of rows, one for each stream, that grows as needed.

    Args:
        source: μ, σ², γ and β of the source network, (4, ΣC).

    Attributes:
        table: (14, S, ΣC); a new tensor after it has grown.

    Example:
        >>> numbers = Numbers(torch.rand(4, 240))
        >>> row = numbers.take()
        >>> torch.equal(numbers.of(row)[STUDENT], numbers.of(SOURCE)[STUDENT])
        True
    """

    def __init__(self, source: Tensor) -> None:
        at_start = torch.cat([source, source, torch.zeros_like(source), source[:2]])
        self.table = at_start.unsqueeze(1).clone()
        self._free: list[int] = []

    def take(self) -> int:
        """A row, with the source's numbers."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self.table[:, row] = self.table[:, SOURCE]
        return row

    def give_back(self, row: int) -> None:
        """It is nobody's any more."""
        self._free.append(row)

    def of(self, row: int) -> Tensor:
        """A stream's numbers, (14, ΣC), in their place."""
        return self.table[:, row]

    def gathered(self, rows: Tensor) -> Tensor:
        """Copies of several rows, (14, G, ΣC); a row may occur several times."""
        return self.table.index_select(1, rows)

    def of_teachers(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """μ and σ², and γ and β, by which some streams predict, (2, G, ΣC) both."""
        both = self.table[TEACHER].index_select(1, rows)
        return both[:2], both[2:]

    def of_unlearnt(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same of networks that only follow the statistics of some streams."""
        affine = self.table[TEACHER, SOURCE : SOURCE + 1][2:]
        statistics = self.table[UNLEARNT].index_select(1, rows)
        return statistics, affine.expand_as(statistics)

    def put_unlearnt(self, rows: Tensor, statistics: Tensor) -> None:
        """Replace the statistics of the latter, of several rows, by (2, G, ΣC)."""
        self.table[UNLEARNT].index_copy_(1, rows, statistics)

    def put_back(self, rows: Tensor, values: Tensor) -> None:
        """Replace several rows, each given once, by (14, G, ΣC)."""
        self.table.index_copy_(1, rows, values)

    def _grow(self) -> None:
        rows = self.table.shape[1]
        more = max(_GROWN, rows // 4)
        grown = self.table.new_empty(FIELDS, rows + more, self.table.shape[2])
        grown[:, :rows] = self.table
        self.table = grown
        self._free = list(reversed(range(rows, rows + more)))
