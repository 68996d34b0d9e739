"""The fifteen corruptions of CIFAR-C at severities 1 to 5, on batches, on any device.

Each is a pure function ``f(x, severity, *, seed, index)`` of images (B, 3, H, W) in [0, 1]. What
happens to image ``i`` depends on (seed, index[i], corruption, severity) alone, never on the batch.
"""

from collections.abc import Sequence

from torch import Tensor

from rotta.corruptions.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from rotta.corruptions.digital import contrast, elastic_transform, jpeg_compression, pixelate
from rotta.corruptions.function import SEVERITIES, Corruption, check_severity
from rotta.corruptions.noise import gaussian_noise, impulse_noise, shot_noise
from rotta.corruptions.textures import Textures, load_textures
from rotta.corruptions.weather import brightness, fog, frost, snow
from rotta.registry import lookup

CORRUPTIONS: dict[str, Corruption] = {
    function.__name__: function
    for function in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        elastic_transform,
        pixelate,
        jpeg_compression,
    )
}
"""By name, in the order of the original data set's description."""


def corrupt(
    x: Tensor,
    name: str,
    severity: int,
    *,
    seed: int,
    index: Tensor | Sequence[int],
    textures: Textures | None = None,
) -> Tensor:
    """Apply the corruption called ``name``.

    Args:
        x: Images, (B, 3, H, W), floating point in [0, 1], 8 to 512 pixels a side.
        name: A key of :data:`CORRUPTIONS`.
        severity: 1 to 5.
        seed: Any integer.
        index: Which image of its set each one is, (B,).
        textures: Pictures for ``frost``; found by :func:`load_textures` unless given.

    Returns:
        A new tensor like ``x``; every value is a multiple of 1/255.

    Raises:
        ValueError: an argument is not as said; the message names the remedy.

    Example:
        >>> import torch
        >>> x = torch.full((2, 3, 32, 32), 0.5)
        >>> y = corrupt(x, "gaussian_noise", 5, seed=0, index=[0, 1])
        >>> y.shape, bool(y[0].equal(y[1]))
        (torch.Size([2, 3, 32, 32]), False)
    """
    function = lookup(CORRUPTIONS, name, "corruption")
    if function is frost:
        return frost(x, severity, seed=seed, index=index, textures=textures)
    return function(x, severity, seed=seed, index=index)


__all__ = [
    "CORRUPTIONS",
    "SEVERITIES",
    "Corruption",
    "Textures",
    "check_severity",
    "corrupt",
    "load_textures",
    *CORRUPTIONS,
]
