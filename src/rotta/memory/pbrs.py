"""Prediction-balanced reservoir sampling (NOTE, Gong et al., NeurIPS 2022, Sec. 3.2)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rotta.memory.bank import EMPTY, Bank

_DRAWS = 3  # per sample: which class gives way, which of its places, whether to stay


class PBRS(Bank):
    """A reservoir of N samples in which no predicted class outgrows the others.

    While there is room, every sample is kept. Then one of a smaller class takes the place of a
    random sample of the largest class, and one of a largest class that of a random sample of its
    own, with probability (held of its class) / (seen of its class).

    Args:
        capacity: N.
        num_classes: C.
        generator: On the CPU; the caller keeps its state.

    Attributes:
        seen: How many of each predicted class were presented, (C,), int64.

    Example:
        >>> bank = PBRS(capacity=4, num_classes=2, generator=torch.Generator().manual_seed(0))
        >>> bank.insert(torch.rand(9, 3, 8, 8), torch.tensor([0] * 7 + [1] * 2), torch.zeros(9))
        >>> sorted(bank.label.tolist())
        [0, 0, 1, 1]
    """

    seen: Tensor

    def __init__(self, capacity: int, num_classes: int, generator: torch.Generator) -> None:
        super().__init__(capacity)
        self.register_buffer("seen", torch.zeros(num_classes, dtype=torch.int64))
        self.generator = generator

    @torch.no_grad()
    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:  # noqa: ARG002 (part of the interface)
        """Present samples in order; the labels go to the host, once per batch."""
        self.make_room(x)
        size = len(x), _DRAWS
        draws = torch.rand(size, generator=self.generator, dtype=torch.float64, device="cpu")
        held, seen = self.label.cpu().numpy(), self.seen.cpu().numpy()
        came_from = torch.from_numpy(_fill(held, seen, label.cpu().numpy(), draws.numpy()))
        self.label.copy_(torch.from_numpy(held))
        self.seen.copy_(torch.from_numpy(seen))
        place = (came_from != EMPTY).nonzero().squeeze(1)
        newcomer = came_from[place]
        self.arrived[place.to(x.device)] = self.clock + newcomer.to(x.device)
        self.clock += len(x)
        self.move_in(x, place, newcomer)


def _fill(
    label: NDArray[np.int64],
    seen: NDArray[np.int64],
    new_label: NDArray[np.int64],
    draws: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Which newcomer ends up in each place, (N,), −1 for none; ``label`` and ``seen`` change."""
    came_from = np.full(len(label), EMPTY)
    held = int(np.count_nonzero(label != EMPTY))
    count = np.bincount(label[:held], minlength=len(seen))
    for i, (own, draw) in enumerate(zip(new_label.tolist(), draws.tolist(), strict=True)):
        seen[own] += 1
        if held < len(label):
            place, held = held, held + 1
        else:
            gives = _class_that_gives(count, int(seen[own]), own, draw)
            if gives == EMPTY:
                continue
            places = np.flatnonzero(label == gives)
            place = int(places[int(draw[1] * len(places))])
            count[gives] -= 1
        count[own] += 1
        label[place], came_from[place] = own, i
    return came_from


def _class_that_gives(
    count: NDArray[np.int64], seen_of_own: int, own: int, draw: list[float]
) -> int:
    """The class of which a full reservoir gives a place to a newcomer, or −1 to drop it."""
    most = count.max()
    if count[own] == most:
        return own if draw[2] <= most / seen_of_own else EMPTY
    largest = np.flatnonzero(count == most)
    return int(largest[int(draw[0] * len(largest))])
