"""The kernels of :mod:`rotta.nn.norm_cuda`; a module of its own, since it imports Triton.

Each runs on a grid (blocks of channels, chunks of rows) over (rows, channels) in memory order.
Sums come in parts, one per chunk, which every program that needs the whole adds up for its own
channels, always in the same order: no atomics, and no kernel in between.
"""

import triton
import triton.language as tl

# Rows of the memory that the kernels of one forward pass share, each of C numbers.
_BATCH_MEAN = tl.constexpr(0)
_MEAN = tl.constexpr(1)
_SCALE = tl.constexpr(2)
_OLD_MEAN = tl.constexpr(3)
_OLD_VAR = tl.constexpr(4)
_PARTS = tl.constexpr(5)  # and then a mean and an M2 from every chunk


@triton.jit  # type: ignore[untyped-decorator]
def _own_channels(channels, BLOCK_C: tl.constexpr):  # type: ignore[no-untyped-def]
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    return channel, channel < channels


@triton.jit
def _vector(ptr, channel, real):  # type: ignore[no-untyped-def]
    return tl.load(ptr + channel, mask=real, other=0.0).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _tile(start, last, channel, real, channels, BLOCK_R: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where a tile lies in memory, and which of it exists."""
    row = start + tl.arange(0, BLOCK_R)
    inside = (row < last)[:, None] & real[None, :]
    return row[:, None] * channels + channel[None, :], inside


@triton.jit
def _affine(x, mean, factor, bias):  # type: ignore[no-untyped-def]
    """Both passes call this: the backward pass finds the very signs that ReLU saw."""
    return (x - mean[None, :]) * factor[None, :] + bias[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _past_relu(grad, x, mean, factor, bias, RELU: tl.constexpr):  # type: ignore[no-untyped-def]
    if RELU:
        grad = tl.where(_affine(x, mean, factor, bias) <= 0.0, 0.0, grad)
    return grad


@triton.jit
def _pool(count, mean, m2):  # type: ignore[no-untyped-def]
    """Chan's formula along the first axis: the mean and the M2 of all, from those of parts."""
    total = tl.sum(count, axis=0)
    pooled = tl.sum(count * mean, axis=0) / total
    # once more for what rounding left: it is no longer small beside a small variance
    pooled += tl.sum(count * (mean - pooled[None, :]), axis=0) / total
    away = mean - pooled[None, :]
    return pooled, tl.sum(m2 + count * away * away, axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def _moments_of_chunk(  # type: ignore[no-untyped-def]
    x_ptr,
    channel,
    real,
    rows,
    channels,
    chunk,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean and M2 of a program's own rows."""
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    # every place of the tile follows its own rows, after Welford; they meet once, at the end
    mean = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    m2 = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    seen = 0.0
    for start in range(first, last, BLOCK_R):
        at, inside = _tile(start, last, channel, real, channels, BLOCK_R)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        seen += 1.0
        delta = tl.where(inside, x - mean, 0.0)
        mean += delta * (1.0 / seen)
        m2 += delta * (x - mean)
    count = (last - first + BLOCK_R - 1 - tl.arange(0, BLOCK_R)) // BLOCK_R
    return _pool(count.to(tl.float32)[:, None], mean, m2)


@triton.jit  # type: ignore[untyped-decorator]
def _moments_of_all(  # type: ignore[no-untyped-def]
    parts_ptr,
    channel,
    real,
    rows,
    channels,
    chunk,
    chunks,
    MOST_CHUNKS: tl.constexpr,
):
    """Mean and M2 of all rows, from those of the chunks."""
    part = tl.arange(0, MOST_CHUNKS)[:, None]
    part_ptr = parts_ptr + 2 * part * channels + channel[None, :]
    exists = (part < chunks) & real[None, :]
    part_mean = tl.load(part_ptr, mask=exists, other=0.0)
    part_m2 = tl.load(part_ptr + channels, mask=exists, other=0.0)
    count = tl.maximum(tl.minimum(rows - part * chunk, chunk), 0).to(tl.float32)
    return _pool(count, part_mean, part_m2)


@triton.jit  # type: ignore[untyped-decorator]
def _normalise_chunk(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    mean,
    factor,
    bias,
    channel,
    real,
    rows,
    channels,
    chunk,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
):
    first = tl.program_id(1) * chunk
    last = tl.minimum(first + chunk, rows)
    for start in range(first, last, BLOCK_R):
        at, inside = _tile(start, last, channel, real, channels, BLOCK_R)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        y = _affine(x, mean, factor, bias)
        if RELU:
            y = tl.where(y <= 0.0, 0.0, y)  # a maximum would hide what is not a number
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "chunk"])  # type: ignore[untyped-decorator]
def normalise(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    mean_ptr,
    var_ptr,
    weight_ptr,
    bias_ptr,
    eps,
    rows,
    channels,
    chunk,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """With the statistics as they are."""
    channel, real = _own_channels(channels, BLOCK_C)
    mean = _vector(mean_ptr, channel, real)
    factor = tl.rsqrt(_vector(var_ptr, channel, real) + eps) * _vector(weight_ptr, channel, real)
    bias = _vector(bias_ptr, channel, real)
    _normalise_chunk(
        x_ptr, y_ptr, mean, factor, bias, channel, real, rows, channels, chunk, RELU, BLOCK_R
    )


@triton.jit(do_not_specialize=["rows", "chunk"])  # type: ignore[untyped-decorator]
def moments(  # type: ignore[no-untyped-def]
    x_ptr,
    mean_ptr,
    var_ptr,
    shared_ptr,
    rows,
    channels,
    chunk,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean and M2 of a chunk; and a copy of the statistics, which the next kernel overwrites."""
    channel, real = _own_channels(channels, BLOCK_C)
    chunk_id = tl.program_id(1)
    if chunk_id == 0:
        old_mean, old_var = _vector(mean_ptr, channel, real), _vector(var_ptr, channel, real)
        tl.store(shared_ptr + _OLD_MEAN * channels + channel, old_mean, mask=real)
        tl.store(shared_ptr + _OLD_VAR * channels + channel, old_var, mask=real)
    mean, m2 = _moments_of_chunk(x_ptr, channel, real, rows, channels, chunk, BLOCK_R, BLOCK_C)
    part_ptr = shared_ptr + (_PARTS + 2 * chunk_id) * channels + channel
    tl.store(part_ptr, mean, mask=real)
    tl.store(part_ptr + channels, m2, mask=real)


@triton.jit(do_not_specialize=["rows", "chunk", "chunks"])  # type: ignore[untyped-decorator]
def move_and_normalise(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    mean_ptr,
    var_ptr,
    weight_ptr,
    bias_ptr,
    shared_ptr,
    alpha,
    eps,
    rows,
    channels,
    chunk,
    chunks,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
    MOST_CHUNKS: tl.constexpr,
):
    """Eqs. 4 and 5 of RoTTA from the parts that ``moments`` left, then Eq. 3."""
    channel, real = _own_channels(channels, BLOCK_C)
    parts_ptr = shared_ptr + _PARTS * channels
    batch_mean, m2 = _moments_of_all(
        parts_ptr, channel, real, rows, channels, chunk, chunks, MOST_CHUNKS
    )
    # from the copy: by now another program may have moved the statistics themselves
    mean = _vector(shared_ptr + _OLD_MEAN * channels, channel, real)
    var = _vector(shared_ptr + _OLD_VAR * channels, channel, real)
    mean += alpha * (batch_mean - mean)
    var += alpha * (m2 / rows - var)
    scale = tl.rsqrt(var + eps)
    if tl.program_id(1) == 0:
        tl.store(mean_ptr + channel, mean, mask=real)
        tl.store(var_ptr + channel, var, mask=real)
        tl.store(shared_ptr + _BATCH_MEAN * channels + channel, batch_mean, mask=real)
        tl.store(shared_ptr + _MEAN * channels + channel, mean, mask=real)
        tl.store(shared_ptr + _SCALE * channels + channel, scale, mask=real)
    factor = scale * _vector(weight_ptr, channel, real)
    bias = _vector(bias_ptr, channel, real)
    _normalise_chunk(
        x_ptr, y_ptr, mean, factor, bias, channel, real, rows, channels, chunk, RELU, BLOCK_R
    )


@triton.jit(do_not_specialize=["rows", "chunk"])  # type: ignore[untyped-decorator]
def pass_moments(  # type: ignore[no-untyped-def]
    x_ptr,
    parts_ptr,
    rows,
    channels,
    chunk,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Mean and M2 of a chunk of one of several passes, which are the third axis of the grid."""
    channel, real = _own_channels(channels, BLOCK_C)
    which, chunk_id, chunks = tl.program_id(2), tl.program_id(1), tl.num_programs(1)
    x_ptr += which * rows * channels
    mean, m2 = _moments_of_chunk(x_ptr, channel, real, rows, channels, chunk, BLOCK_R, BLOCK_C)
    part_ptr = parts_ptr + 2 * (which * chunks + chunk_id) * channels + channel
    tl.store(part_ptr, mean, mask=real)
    tl.store(part_ptr + channels, m2, mask=real)


@triton.jit(do_not_specialize=["rows", "chunk"])  # type: ignore[untyped-decorator]
def pass_normalise(  # type: ignore[no-untyped-def]
    x_ptr,
    y_ptr,
    weight_ptr,
    bias_ptr,
    parts_ptr,
    eps,
    rows,
    channels,
    chunk,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
    MOST_CHUNKS: tl.constexpr,
):
    """Each pass by its own moments, from the parts that ``pass_moments`` left."""
    channel, real = _own_channels(channels, BLOCK_C)
    which, chunks = tl.program_id(2), tl.num_programs(1)
    parts_ptr += 2 * which * chunks * channels
    mean, m2 = _moments_of_all(parts_ptr, channel, real, rows, channels, chunk, chunks, MOST_CHUNKS)
    factor = tl.rsqrt(m2 / rows + eps) * _vector(weight_ptr, channel, real)
    bias = _vector(bias_ptr, channel, real)
    x_ptr += which * rows * channels
    y_ptr += which * rows * channels
    _normalise_chunk(
        x_ptr, y_ptr, mean, factor, bias, channel, real, rows, channels, chunk, RELU, BLOCK_R
    )


@triton.jit(do_not_specialize=["rows", "chunk"])  # type: ignore[untyped-decorator]
def gradient_sums(  # type: ignore[no-untyped-def]
    grad_ptr,
    x_ptr,
    weight_ptr,
    bias_ptr,
    saved_ptr,
    parts_ptr,
    rows,
    channels,
    chunk,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The part of a chunk in ∂L/∂γ and ∂L/∂β."""
    channel, real = _own_channels(channels, BLOCK_C)
    mean = _vector(saved_ptr + _MEAN * channels, channel, real)
    scale = _vector(saved_ptr + _SCALE * channels, channel, real)
    factor = scale * _vector(weight_ptr, channel, real)
    bias = _vector(bias_ptr, channel, real)
    chunk_id = tl.program_id(1)
    first = chunk_id * chunk
    last = tl.minimum(first + chunk, rows)
    of_weight = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    of_bias = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)
    for start in range(first, last, BLOCK_R):
        at, inside = _tile(start, last, channel, real, channels, BLOCK_R)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        grad = _past_relu(grad, x, mean, factor, bias, RELU)
        of_weight += grad * (x - mean[None, :])
        of_bias += grad
    part_ptr = parts_ptr + 2 * chunk_id * channels + channel
    tl.store(part_ptr, tl.sum(of_weight, axis=0) * scale, mask=real)
    tl.store(part_ptr + channels, tl.sum(of_bias, axis=0), mask=real)


@triton.jit(do_not_specialize=["rows", "chunk", "chunks"])  # type: ignore[untyped-decorator]
def gradients(  # type: ignore[no-untyped-def]
    grad_ptr,
    x_ptr,
    weight_ptr,
    bias_ptr,
    saved_ptr,
    parts_ptr,
    of_x_ptr,
    of_weight_ptr,
    of_bias_ptr,
    share,
    rows,
    channels,
    chunk,
    chunks,
    RELU: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
    MOST_CHUNKS: tl.constexpr,
):
    """∂L/∂γ and ∂L/∂β from their parts; then ∂L/∂x of a chunk, unless ``of_x_ptr`` is None."""
    channel, real = _own_channels(channels, BLOCK_C)
    part = tl.arange(0, MOST_CHUNKS)[:, None]
    part_ptr = parts_ptr + 2 * part * channels + channel[None, :]
    exists = (part < chunks) & real[None, :]
    of_weight = tl.sum(tl.load(part_ptr, mask=exists, other=0.0), axis=0)
    of_bias = tl.sum(tl.load(part_ptr + channels, mask=exists, other=0.0), axis=0)
    if tl.program_id(1) == 0:
        tl.store(of_weight_ptr + channel, of_weight, mask=real)
        tl.store(of_bias_ptr + channel, of_bias, mask=real)
    if of_x_ptr is not None:
        batch_mean = _vector(saved_ptr + _BATCH_MEAN * channels, channel, real)
        mean = _vector(saved_ptr + _MEAN * channels, channel, real)
        scale = _vector(saved_ptr + _SCALE * channels, channel, real)
        factor = scale * _vector(weight_ptr, channel, real)
        bias = _vector(bias_ptr, channel, real)
        # ∂L/∂x = factor·∂L/∂y + slope·(x − μ_b) + level
        slope = -share * scale * factor * of_weight
        level = -share * factor * of_bias
        first = tl.program_id(1) * chunk
        last = tl.minimum(first + chunk, rows)
        for start in range(first, last, BLOCK_R):
            at, inside = _tile(start, last, channel, real, channels, BLOCK_R)
            x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
            grad = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
            grad = _past_relu(grad, x, mean, factor, bias, RELU)
            of_x = _affine(x, batch_mean, slope, level) + factor[None, :] * grad
            tl.store(of_x_ptr + at, of_x.to(of_x_ptr.dtype.element_ty), mask=inside)
