"""The kernels of :mod:`rotta.nn.augment_cuda`; a module of its own, since it imports Triton.

The formulas are those of :mod:`rotta.nn.augment`; a program makes a stretch of one view's pixels.
A row of draws is a packed :class:`rotta.nn.augment.StrongView`.
"""

import triton
import triton.language as tl

from rotta.nn.augment import BLUR_RADIUS, GREY, NOISE

_RED = tl.constexpr(GREY[0])
_GREEN = tl.constexpr(GREY[1])
_BLUE = tl.constexpr(GREY[2])
_RADIUS = tl.constexpr(BLUR_RADIUS)
_NOISE = tl.constexpr(NOISE)

# where a row holds what; the order comes first
_STEPS = tl.constexpr(5)
_FACTORS = tl.constexpr(5)
_ANGLE = tl.constexpr(10)
_RIGHT = tl.constexpr(11)
_DOWN = tl.constexpr(12)
_SCALE = tl.constexpr(13)
_SIGMA = tl.constexpr(14)
_MIRROR = tl.constexpr(15)
_ROW = tl.constexpr(16)

_BRIGHTNESS = tl.constexpr(0)
_CONTRAST = tl.constexpr(1)
_SATURATION = tl.constexpr(2)
_HUE = tl.constexpr(3)


@triton.jit(do_not_specialize=["batch", "images", "pixels"])  # type: ignore[untyped-decorator]
def sum_greys(  # type: ignore[no-untyped-def]
    x_ptr,
    draws_ptr,
    greys_ptr,
    batch,
    images,
    pixels,
    CHANNELS_LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The grey values of a stretch, summed, as they are just before the contrast changes."""
    view = tl.program_id(0)
    row_ptr = draws_ptr + view // batch * _ROW
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    red, green, blue = _picture(x_ptr, view % images, pixel, pixels, CHANNELS_LAST)
    turn = 0
    step = tl.load(row_ptr).to(tl.int32)
    while step != _CONTRAST:
        red, green, blue = _stepped(red, green, blue, row_ptr, step, 0.0)
        turn += 1
        step = tl.load(row_ptr + turn).to(tl.int32)
    grey = tl.where(pixel < pixels, _grey(red, green, blue), 0.0)
    tl.store(greys_ptr + view * tl.num_programs(1) + tl.program_id(1), tl.sum(grey, axis=0))


@triton.jit(do_not_specialize=["batch", "images", "pixels"])  # type: ignore[untyped-decorator]
def colour(  # type: ignore[no-untyped-def]
    x_ptr,
    draws_ptr,
    greys_ptr,
    coloured_ptr,
    batch,
    images,
    pixels,
    CHANNELS_LAST: tl.constexpr,
    BLOCK: tl.constexpr,
    TILES: tl.constexpr,
):
    """The five colour steps, in the group's order."""
    view = tl.program_id(0)
    row_ptr = draws_ptr + view // batch * _ROW
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile, tiles = tl.arange(0, TILES), tl.num_programs(1)
    greys = tl.load(greys_ptr + view * tiles + tile, mask=tile < tiles, other=0.0)
    mean = tl.sum(greys, axis=0) / pixels
    red, green, blue = _picture(x_ptr, view % images, pixel, pixels, CHANNELS_LAST)
    for turn in range(_STEPS):
        step = tl.load(row_ptr + turn).to(tl.int32)
        red, green, blue = _stepped(red, green, blue, row_ptr, step, mean)
    _write(coloured_ptr, view, pixel, pixels, red, green, blue, CHANNELS_LAST=False)


@triton.jit(do_not_specialize=["batch", "height", "width"])  # type: ignore[untyped-decorator]
def shape(  # type: ignore[no-untyped-def]
    coloured_ptr,
    draws_ptr,
    noise_ptr,
    views_ptr,
    batch,
    height,
    width,
    CHANNELS_LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Rotate, scale, shift, blur, mirror, add noise: each tap of the blur is a bilinear sample."""
    view = tl.program_id(0)
    row_ptr = draws_ptr + view // batch * _ROW
    pixels = height * width
    pixel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    column, row = pixel % width, pixel // width
    column = tl.where(tl.load(row_ptr + _MIRROR) > 0, width - 1 - column, column)
    middle_column, middle_row = (width - 1) / 2, (height - 1) / 2
    column = column - middle_column - tl.load(row_ptr + _RIGHT)
    row = row - middle_row - tl.load(row_ptr + _DOWN)
    angle, scale = tl.load(row_ptr + _ANGLE), tl.load(row_ptr + _SCALE)
    cosine, sine = tl.cos(angle) / scale, tl.sin(angle) / scale
    sigma = tl.load(row_ptr + _SIGMA)
    total = 0.0
    for offset in tl.static_range(-_RADIUS, _RADIUS + 1):
        total += _bell(offset, sigma)
    image_ptr = coloured_ptr + view.to(tl.int64) * 3 * pixels
    red = tl.zeros((BLOCK,), tl.float32)
    green = tl.zeros((BLOCK,), tl.float32)
    blue = tl.zeros((BLOCK,), tl.float32)
    for right in range(-_RADIUS, _RADIUS + 1):
        for down in range(-_RADIUS, _RADIUS + 1):
            tap = _bell(right, sigma) / total * (_bell(down, sigma) / total)
            x, y = column + right, row + down
            # the inverse map; edge pixels are repeated beyond the border
            x, y = cosine * x + sine * y + middle_column, cosine * y - sine * x + middle_row
            x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
            y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
            red += tap * _between(image_ptr, x, y, height, width)
            green += tap * _between(image_ptr + pixels, x, y, height, width)
            blue += tap * _between(image_ptr + 2 * pixels, x, y, height, width)
    noise_red, noise_green, noise_blue = _read(noise_ptr, view, pixel, pixels, CHANNELS_LAST=False)
    red = _in_range(red + _NOISE * noise_red)
    green = _in_range(green + _NOISE * noise_green)
    blue = _in_range(blue + _NOISE * noise_blue)
    _write(views_ptr, view, pixel, pixels, red, green, blue, CHANNELS_LAST)


@triton.jit  # type: ignore[untyped-decorator]
def _read(ptr, image, pixel, pixels, CHANNELS_LAST: tl.constexpr):  # type: ignore[no-untyped-def]
    """Red, green and blue of some pixels of one image."""
    from_pixel = 3 if CHANNELS_LAST else 1
    from_colour = 1 if CHANNELS_LAST else pixels
    red_ptr = ptr + image.to(tl.int64) * 3 * pixels + pixel * from_pixel
    real = pixel < pixels
    red = tl.load(red_ptr, mask=real, other=0.0)
    green = tl.load(red_ptr + from_colour, mask=real, other=0.0)
    blue = tl.load(red_ptr + 2 * from_colour, mask=real, other=0.0)
    return red, green, blue


@triton.jit  # type: ignore[untyped-decorator]
def _write(ptr, image, pixel, pixels, red, green, blue, CHANNELS_LAST: tl.constexpr):  # type: ignore[no-untyped-def]
    """The counterpart of ``_read``."""
    from_pixel = 3 if CHANNELS_LAST else 1
    from_colour = 1 if CHANNELS_LAST else pixels
    red_ptr = ptr + image.to(tl.int64) * 3 * pixels + pixel * from_pixel
    real = pixel < pixels
    tl.store(red_ptr, red, mask=real)
    tl.store(red_ptr + from_colour, green, mask=real)
    tl.store(red_ptr + 2 * from_colour, blue, mask=real)


@triton.jit  # type: ignore[untyped-decorator]
def _picture(x_ptr, image, pixel, pixels, CHANNELS_LAST: tl.constexpr):  # type: ignore[no-untyped-def]
    red, green, blue = _read(x_ptr, image, pixel, pixels, CHANNELS_LAST)
    return _in_range(red), _in_range(green), _in_range(blue)


@triton.jit
def _in_range(x):  # type: ignore[no-untyped-def]
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
def _grey(red, green, blue):  # type: ignore[no-untyped-def]
    return _RED * red + _GREEN * green + _BLUE * blue


@triton.jit
def _stepped(red, green, blue, row_ptr, step, mean):  # type: ignore[no-untyped-def]
    """One colour step, with the group's factor; ``mean`` is the image's grey, for the contrast."""
    factor = tl.load(row_ptr + _FACTORS + step)
    if step == _BRIGHTNESS:
        red, green, blue = (
            _in_range(red * factor),
            _in_range(green * factor),
            _in_range(blue * factor),
        )
    elif step == _CONTRAST:
        red, green, blue = _away_from(mean, red, green, blue, factor)
    elif step == _SATURATION:
        red, green, blue = _away_from(_grey(red, green, blue), red, green, blue, factor)
    elif step == _HUE:
        red, green, blue = _turned(red, green, blue, factor)
    else:
        red, green, blue = _power(red, factor), _power(green, factor), _power(blue, factor)
    return red, green, blue


@triton.jit
def _away_from(grey, red, green, blue, factor):  # type: ignore[no-untyped-def]
    rest = (1.0 - factor) * grey
    red = _in_range(factor * red + rest)
    green = _in_range(factor * green + rest)
    blue = _in_range(factor * blue + rest)
    return red, green, blue


@triton.jit
def _power(x, gamma):  # type: ignore[no-untyped-def]
    return tl.exp2(gamma * tl.log2(tl.minimum(tl.maximum(x, 1e-8), 1.0)))


@triton.jit
def _turned(red, green, blue, shift):  # type: ignore[no-untyped-def]
    value = tl.maximum(red, tl.maximum(green, blue))
    chroma = value - tl.minimum(red, tl.minimum(green, blue))
    divisor = tl.where(chroma == 0, 1.0, chroma)
    of_others = tl.where(value == green, (blue - red) / divisor + 2, (red - green) / divisor + 4)
    hue = tl.where(value == red, (green - blue) / divisor, of_others) + 6 * shift
    return (
        value - chroma * _lack(hue + 5),
        value - chroma * _lack(hue + 3),
        value - chroma * _lack(hue + 1),
    )


@triton.jit
def _lack(k):  # type: ignore[no-untyped-def]
    """How much of the chroma a channel lacks, k sixths of the circle on from where it is full."""
    k -= 6 * tl.floor(k / 6)
    return _in_range(tl.minimum(k, 4 - k))


@triton.jit
def _bell(offset, sigma):  # type: ignore[no-untyped-def]
    return tl.exp(-0.5 * (offset / sigma) * (offset / sigma))


@triton.jit
def _between(plane_ptr, x, y, height, width):  # type: ignore[no-untyped-def]
    """A colour at places within the image, interpolated from the four pixels around each."""
    left, top = tl.floor(x), tl.floor(y)
    to_right, to_bottom = x - left, y - top
    left, top = left.to(tl.int32), top.to(tl.int32)
    right, bottom = tl.minimum(left + 1, width - 1), tl.minimum(top + 1, height - 1)
    upper = (1 - to_right) * tl.load(plane_ptr + top * width + left)
    upper += to_right * tl.load(plane_ptr + top * width + right)
    lower = (1 - to_right) * tl.load(plane_ptr + bottom * width + left)
    lower += to_right * tl.load(plane_ptr + bottom * width + right)
    return (1 - to_bottom) * upper + to_bottom * lower
