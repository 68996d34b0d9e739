"""The images that the streams' banks hold, in blocks: none is moved when streams are added."""

import numpy as np
import torch
from torch import Tensor

from rotta.memory.cstu_line import Ints
from rotta.pool.sent import sent

_SHARE = 16  # of the banks that there are: room for so large a part of them is made at once
_LEAST = 4  # banks; every block that newcomers go to costs a launch


class BankImages:
    """Room for banks of N images of one shape, each known by its number.

    Args:
        capacity: N.
        like: An image, (C, H, W), of the shape, dtype and device of all.

    Example:
        >>> images = BankImages(4, torch.zeros(3, 8, 8))
        >>> images.of(images.take()).shape, images.taken
        (torch.Size([4, 3, 8, 8]), 1)
    """

    def __init__(self, capacity: int, like: Tensor) -> None:
        self._capacity = capacity
        self._shape = like.shape
        self._like = like.detach().new_empty(0)
        self._blocks: list[Tensor] = []  # (banks · N, C, H, W) each
        self._begins = np.zeros(1, dtype=np.int64)  # number of each block's first bank, and the end
        self._free: list[int] = []

    @property
    def taken(self) -> int:
        """How many banks are in use."""
        return int(self._begins[-1]) - len(self._free)

    def take(self) -> int:
        """A bank, to be read and written; it begins with anything."""
        if not self._free:
            first = int(self._begins[-1])
            more = max(_LEAST, first // _SHARE)
            self._blocks.append(self._like.new_empty(more * self._capacity, *self._shape))
            self._begins = np.append(self._begins, first + more)
            self._free = list(reversed(range(first, first + more)))
        return self._free.pop()

    def give_back(self, bank: int) -> None:
        """It is nobody's any more."""
        self._free.append(bank)

    def of(self, bank: int) -> Tensor:
        """What a bank holds, (N, C, H, W), in its place."""
        block = int(self._blocks_of(np.array(bank)))
        first = (bank - int(self._begins[block])) * self._capacity
        return self._blocks[block][first : first + self._capacity]

    def move_in(self, banks: Ints, places: Ints, newcomers: Tensor, which: Ints) -> None:
        """Copy newcomers over the images that they replace, in one call for each block.

        Args:
            banks: Of each who moves in, (M,).
            places: Where to; no place of a bank occurs twice.
            newcomers: Images, (B, C, H, W).
            which: Of them, (M,).
        """
        block = self._blocks_of(banks)
        order = np.argsort(block, kind="stable")
        block = block[order]
        within = (banks[order] - self._begins[block]) * self._capacity + places[order]
        touched, counts = np.unique(block, return_counts=True)
        both = torch.from_numpy(np.stack([within, which[order]]))
        to, of = sent(both, newcomers.device).unbind()
        parts = torch.split(to, counts.tolist()), torch.split(newcomers[of], counts.tolist())
        for each, own_places, images in zip(touched.tolist(), *parts, strict=True):
            self._blocks[each].index_copy_(0, own_places, images)

    def _blocks_of(self, banks: Ints) -> Ints:
        blocks: Ints = np.searchsorted(self._begins, banks, side="right") - 1
        return blocks
