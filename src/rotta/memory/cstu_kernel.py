"""The kernel of :mod:`rotta.memory.cstu_cuda`; a module of its own, since it imports Triton."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def fill(  # type: ignore[no-untyped-def]
    label_ptr,
    arrived_ptr,
    clock_ptr,
    weighted_ptr,
    occupation_ptr,
    new_label_ptr,
    new_weighted_ptr,
    came_from_ptr,
    lambda_t_ptr,
    newcomers,
    capacity,
    num_classes,
    BLOCK: tl.constexpr,
):
    """Algorithm 1 over the batch, by one program that holds the bank's numbers in registers.

    ``occupation`` is, for each place, how many samples of its class the bank holds.
    """
    place = tl.arange(0, BLOCK)
    real = place < capacity
    label = tl.load(label_ptr + place, mask=real, other=-2)
    arrived = tl.load(arrived_ptr + place, mask=real, other=0)
    weighted = tl.load(weighted_ptr + place, mask=real, other=0.0)
    occupation = tl.load(occupation_ptr + place, mask=real, other=0)
    came_from = tl.full((BLOCK,), -1, tl.int64)
    clock = tl.load(clock_ptr)
    lambda_t = tl.load(lambda_t_ptr)
    held = tl.sum((label >= 0).to(tl.int32), axis=0)
    for i in range(newcomers):
        own = tl.load(new_label_ptr + i)
        own_weighted = tl.load(new_weighted_ptr + i)
        same = label == own
        class_is_full = tl.sum(same.to(tl.int32), axis=0) * num_classes >= capacity
        add = (class_is_full == 0) & (held < capacity)
        most = tl.max(tl.where(label >= 0, occupation, -1), axis=0)
        search = (label >= 0) & tl.where(class_is_full, same, occupation == most)
        # H of Eq. 6
        age = (clock + i - arrived).to(tl.float64)
        score = lambda_t / (1.0 + tl.exp(-age / capacity)) + weighted
        score = tl.where(search, score, float("-inf"))
        highest = tl.max(score, axis=0)
        # among equals the last in (class, arrival)
        tied = search & (score == highest)
        tied = tied & (label == tl.max(tl.where(tied, label, -1), axis=0))
        last = tied & (arrived == tl.max(tl.where(tied, arrived, -1), axis=0))
        worse = highest > lambda_t / 2 + own_weighted
        chosen = tl.where(add, place == held, last & worse)
        gone = tl.max(tl.where(chosen, label, -2), axis=0)
        occupation = tl.where((label == gone) & (gone >= 0), occupation - 1, occupation)
        label = tl.where(chosen, own, label)
        now = tl.sum((label == own).to(tl.int64), axis=0)
        occupation = tl.where(label == own, now, occupation)
        arrived = tl.where(chosen, clock + i, arrived)
        weighted = tl.where(chosen, own_weighted, weighted)
        came_from = tl.where(chosen, i, came_from)
        held += add.to(tl.int32)
    tl.store(label_ptr + place, label, mask=real)
    tl.store(arrived_ptr + place, arrived, mask=real)
    tl.store(came_from_ptr + place, came_from, mask=real)
