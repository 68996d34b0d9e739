"""The images that the streams' banks hold, in blocks: none is moved when streams are added."""

import torch
from torch import Tensor

_SHARE = 16  # of the banks that there are: room for so large a part of them is made at once


class BankImages:
    """Room for banks of N images of one shape.

    Args:
        capacity: N.
        like: An image, (C, H, W), of the shape, dtype and device of all.

    Example:
        >>> images = BankImages(4, torch.zeros(3, 8, 8))
        >>> images.take().shape, images.taken
        (torch.Size([4, 3, 8, 8]), 1)
    """

    def __init__(self, capacity: int, like: Tensor) -> None:
        self._shape = capacity, *like.shape
        self._like = like.detach().new_empty(0)
        self._free: list[Tensor] = []
        self._banks = 0

    @property
    def taken(self) -> int:
        """How many banks are in use."""
        return self._banks - len(self._free)

    def take(self) -> Tensor:
        """Room for one bank, (N, C, H, W), to be read and written; it begins with anything."""
        if not self._free:
            more = 1 + self._banks // _SHARE
            self._free = list(self._like.new_empty(more, *self._shape).unbind())
            self._banks += more
        return self._free.pop()

    def give_back(self, bank: Tensor) -> None:
        """It is nobody's any more."""
        self._free.append(bank)


def move_in(images: list[Tensor], newcomers: list[Tensor]) -> None:
    """Copy newcomers, (C, H, W) each, over the images that they replace, all in one call."""
    if images:
        torch._foreach_copy_(images, newcomers)
