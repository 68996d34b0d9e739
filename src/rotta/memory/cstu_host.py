"""Which newcomer takes which place in the bank, decided on the host with numpy.

On a device without the kernel of `cstu_cuda` the few numbers travel once per batch.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rotta.memory.bank import EMPTY
from rotta.memory.cstu_line import Classes, Floats, Ints, Scores


class _Samples(NamedTuple):
    """What is decided by; each is (n,)."""

    label: Ints
    arrived: Ints
    weighted: Floats  # λ_u·U / log C


def decide(
    label: Tensor,
    arrived: Tensor,
    uncertainty: Tensor,
    clock: Tensor,
    new_label: Tensor,
    new_uncertainty: Tensor,
    weights: Tensor,
    num_classes: int,
) -> tuple[Tensor, Tensor]:
    """Present newcomers one after the other; the first four are brought up to date.

    Args:
        label: Predicted class of each place, (N,); −1 where empty.
        arrived: The clock when each came, (N,).
        uncertainty: U of each place, (N,), float64.
        clock: Samples presented before, ().
        new_label: Of the newcomers, (B,).
        new_uncertainty: Of the newcomers, (B,).
        weights: λ_t, λ_u / log C, and the U of a newcomer whose own is no number, (3,), float64.
        num_classes: C.

    Returns:
        The places that change hands, (n,), and which newcomer each goes to, (n,), on the host.
    """
    lambda_t, lambda_u, worst = weights.tolist()
    state = [of_places.cpu().numpy() for of_places in (label, arrived, uncertainty)]
    time = np.arange(int(clock), int(clock) + len(new_label))
    new_u = new_uncertainty.double().cpu().numpy()
    new = [new_label.cpu().numpy(), time, np.where(np.isfinite(new_u), new_u, worst)]
    came_from = _came_from(
        _Samples(state[0], state[1], state[2] * lambda_u),
        _Samples(new[0], new[1], new[2] * lambda_u),
        num_classes,
        lambda_t,
    )
    place = np.flatnonzero(came_from != EMPTY)
    newcomer = came_from[place]
    for kept, of_places, of_new in zip((label, arrived, uncertainty), state, new, strict=True):
        of_places[place] = of_new[newcomer]
        kept.copy_(torch.from_numpy(of_places))  # no copy on the CPU, where they are one
    clock += len(new_label)
    return torch.from_numpy(place), torch.from_numpy(newcomer)


def _came_from(places: _Samples, new: _Samples, num_classes: int, lambda_t: float) -> Ints:
    """Algorithm 1 over the batch: which newcomer ends up in each place, (N,); −1 for none.

    Everybody who may be in the bank during the batch stands in one line, held or not. A class is
    one stretch of it, so that a newcomer costs a few operations on a stretch.
    """
    capacity, held = len(places.label), int(np.count_nonzero(places.label != EMPTY))
    everyone = _Samples(*(np.concatenate((a[:held], b)) for a, b in zip(places, new, strict=True)))
    everyone.weighted[held:] = -np.inf  # not there yet
    # the last in (class, arrival) stands first: of equal scores it is the first to be found
    line = np.lexsort((everyone.arrived, everyone.label))[::-1]
    stands = np.empty_like(line)
    stands[line] = np.arange(len(line))
    classes = Classes(everyone.label[line], held=stands[:held])
    scores = Scores(
        everyone.arrived[line], everyone.weighted[line], new.arrived, capacity, lambda_t
    )
    place_of = line  # those who hold one were listed in its order
    came_from = np.full(capacity, EMPTY)
    at, own_class = stands[held:].tolist(), classes.of[stands[held:]].tolist()
    for i, (here, own, weighted) in enumerate(
        zip(at, own_class, new.weighted.tolist(), strict=True)
    ):
        gone = None
        class_is_full = classes.count[own] * num_classes >= capacity  # N / C is a real number
        if not class_is_full and held < capacity:
            place, held = held, held + 1
        else:
            search = classes.stretch(own) if class_is_full else classes.largest()
            score = scores.of(search, i)
            highest = score.argmax()
            if not score[highest] > lambda_t / 2 + weighted:
                continue
            gone = classes.everywhere[search][highest]
            scores.leave(gone, i)
            place = place_of[gone]
        classes.exchange(own, gone)
        scores.enter(here, i, weighted)
        place_of[here], came_from[place] = place, i
    return came_from
