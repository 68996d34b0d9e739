"""The kernels of :mod:`rotta.memory.cstu_cuda`; a module of its own, since it imports Triton."""

import triton
import triton.language as tl

_LABEL_BITS = tl.constexpr(40)  # labels stand above the arrivals, of which there are fewer than 2⁴⁰


@triton.jit(do_not_specialize=["newcomers", "capacity", "num_classes"])  # type: ignore[untyped-decorator]
def fill(  # type: ignore[no-untyped-def]
    label_ptr,
    arrived_ptr,
    uncertainty_ptr,
    clock_ptr,
    new_label_ptr,
    new_uncertainty_ptr,
    weights_ptr,
    came_from_ptr,
    newcomers,
    capacity,
    num_classes,
    BLOCK: tl.constexpr,
):
    """Algorithm 1 over the batch, by one program that holds the bank's numbers in registers."""
    place = tl.arange(0, BLOCK)
    real = place < capacity
    label = tl.load(label_ptr + place, mask=real, other=-1)
    arrived = tl.load(arrived_ptr + place, mask=real, other=0)
    uncertainty = tl.load(uncertainty_ptr + place, mask=real, other=0.0)
    clock = tl.load(clock_ptr)
    # as tensors: a number given to a kernel becomes float32, and scores need all of float64
    lambda_t = tl.load(weights_ptr)
    lambda_u = tl.load(weights_ptr + 1)
    worst = tl.load(weights_ptr + 2)
    came_from = tl.full((BLOCK,), -1, tl.int32)
    held = tl.sum((label >= 0).to(tl.int32), axis=0)
    # how many samples of its class the bank holds, for each place
    occupation = tl.zeros((BLOCK,), tl.int32)
    for other in range(held):  # places fill in order
        occupation += (label == tl.load(label_ptr + other)).to(tl.int32)
    for i in range(newcomers):
        own = tl.load(new_label_ptr + i)
        own_uncertainty = tl.load(new_uncertainty_ptr + i).to(tl.float64)
        is_number = tl.abs(own_uncertainty) < float("inf")
        own_uncertainty = tl.where(is_number, own_uncertainty, worst)
        same = label == own
        own_count = tl.max(tl.where(same, occupation, 0), axis=0)
        class_is_full = own_count * num_classes >= capacity
        add = (class_is_full == 0) & (held < capacity)
        most = tl.max(tl.where(label >= 0, occupation, -1), axis=0)
        search = (label >= 0) & tl.where(class_is_full, same, occupation == most)
        # H of Eq. 6
        age = (clock + i - arrived).to(tl.float64)
        score = lambda_t / (1.0 + tl.exp(-age / capacity)) + uncertainty * lambda_u
        score = tl.where(search, score, float("-inf"))
        highest = tl.max(score, axis=0)
        # among equals the last in (class, arrival)
        rank = tl.where(search & (score == highest), (label << _LABEL_BITS) | arrived, -1)
        last = tl.max(rank, axis=0)
        worse = highest > lambda_t / 2 + own_uncertainty * lambda_u
        replace = (add == 0) & worse & (last >= 0)
        chosen = tl.where(add, place == held, (rank == last) & replace)
        gone = tl.where(replace, last >> _LABEL_BITS, -1)
        occupation -= ((label == gone) & replace).to(tl.int32)
        label = tl.where(chosen, own, label)
        now = own_count + ((add | replace) & (gone != own)).to(tl.int32)
        occupation = tl.where(label == own, now, occupation)
        arrived = tl.where(chosen, clock + i, arrived)
        uncertainty = tl.where(chosen, own_uncertainty, uncertainty)
        came_from = tl.where(chosen, i, came_from)
        held += add.to(tl.int32)
    tl.debug_barrier()  # all have read what is written now
    tl.store(label_ptr + place, label, mask=real)
    tl.store(arrived_ptr + place, arrived, mask=real)
    tl.store(uncertainty_ptr + place, uncertainty, mask=real)
    tl.store(came_from_ptr + place, came_from, mask=real)
    tl.store(clock_ptr, clock + newcomers)


@triton.jit(do_not_specialize=["pixels"])  # type: ignore[untyped-decorator]
def move(images_ptr, x_ptr, came_from_ptr, pixels, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy a stretch of one newcomer's image into its place, where one came."""
    place = tl.program_id(0).to(tl.int64)
    newcomer = tl.load(came_from_ptr + place)
    if newcomer >= 0:
        pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        real = pixel < pixels
        image = tl.load(x_ptr + newcomer * pixels + pixel, mask=real)
        tl.store(images_ptr + place * pixels + pixel, image, mask=real)
