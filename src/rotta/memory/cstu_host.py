"""Which newcomer takes which place in the bank, decided on the host with numpy.

At these sizes, tens to thousands of places, numpy's calls cost a tenth of PyTorch's. On a device
without the kernel of `cstu_cuda` the few numbers travel once per batch.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rotta.memory.bank import EMPTY

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def decide(
    label: Tensor,
    arrived: Tensor,
    clock: Tensor,
    weighted: Tensor,
    new_label: Tensor,
    new_weighted: Tensor,
    *,
    num_classes: int,
    lambda_t: float,
) -> Tensor:
    """Present newcomers one after the other; ``label`` and ``arrived`` are brought up to date.

    Args:
        label: Predicted class of each place, (N,); −1 where empty.
        arrived: The clock when it came, (N,).
        clock: Samples presented before, ().
        weighted: λ_u·U / log C of each place, (N,), float64.
        new_label: Of the newcomers, (B,).
        new_weighted: Of the newcomers, (B,), float64.
        num_classes: C.
        lambda_t: λ_t.

    Returns:
        Which newcomer ended up in each place, (N,), int64; −1 where none did.
    """
    held_label, held_arrived = label.cpu().numpy(), arrived.cpu().numpy()
    came_from = _fill(
        held_label,
        held_arrived,
        int(clock),
        weighted.cpu().numpy(),
        new_label.cpu().numpy(),
        new_weighted.cpu().numpy(),
        num_classes,
        lambda_t,
    )
    label.copy_(torch.from_numpy(held_label))  # no copy on the CPU, where they are one
    arrived.copy_(torch.from_numpy(held_arrived))
    return torch.from_numpy(came_from).to(label.device)


def _fill(
    label: Ints,
    arrived: Ints,
    clock: int,
    weighted: Floats,
    new_label: Ints,
    new_weighted: Floats,
    num_classes: int,
    lambda_t: float,
) -> Ints:
    """Algorithm 1 over the batch."""
    capacity = len(label)
    came_from = np.full(capacity, EMPTY)
    held = int((label >= 0).sum())
    count = np.bincount(label[label >= 0], minlength=num_classes)
    for i, own in enumerate(new_label.tolist()):
        class_is_full = count[own] * num_classes >= capacity  # N / C is a real number
        if not class_is_full and held < capacity:
            place, held = held, held + 1  # places fill in order and are never left empty
        else:
            if class_is_full:
                search = np.flatnonzero(label == own)
            else:
                occupation = count[label]
                search = np.flatnonzero(occupation == occupation.max())
            # H of Eq. 6; in float32 its age term saturates near age 1,000
            timely = lambda_t / (1 + np.exp((arrived[search] - (clock + i)) / capacity))
            score = timely + weighted[search]
            highest = score.max()
            if not highest > lambda_t / 2 + new_weighted[i]:
                continue
            place = _last(search[score == highest], label, arrived)
            count[label[place]] -= 1
        count[own] += 1
        label[place], arrived[place], weighted[place] = own, clock + i, new_weighted[i]
        came_from[place] = i
    return came_from


def _last(places: Ints, label: Ints, arrived: Ints) -> int:
    """Of places with equal scores, the last in (class, arrival)."""
    if len(places) == 1:
        return int(places[0])
    return int(places[np.lexsort((arrived[places], label[places]))[-1]])
