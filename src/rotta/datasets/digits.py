"""The built-in data: handwritten digits that come with scikit-learn, enlarged to 32×32."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rotta.datasets.arrays import ArrayImages, CleanDataset, Pixels
from rotta.datasets.base import Labels
from rotta.datasets.digit_views import moved_views

SIDE = 32
TRAIN_IMAGES = 900
_NATIVE_SIDE = 8
_NATIVE_MAXIMUM = 16


def load_digits(*, split: str = "test", limit: int | None = None, views: int = 1) -> CleanDataset:
    """1,797 scanned digits, 900 to train on and 897 to test on; nothing is downloaded.

    The split is the same for everyone: it depends on no seed. Both halves hold every digit in
    equal share, to within one image, and keep scikit-learn's order, in which the classes
    alternate.

    Args:
        split: ``"train"`` or ``"test"``.
        limit: Only the first so many images.
        views: How often each scan appears: first all as they are, then all again, slightly moved.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.

    Example:
        >>> digits = load_digits(split="train")
        >>> digits.domain("clean").images(np.arange(2)).shape
        torch.Size([2, 3, 32, 32])
    """
    grey, labels = _scans()
    chosen = np.flatnonzero(_in_train(labels) == (split == "train"))
    pixels = moved_views(_enlarge(grey[chosen]), views)  # while there is one channel of them
    images = ArrayImages(np.repeat(pixels, 3, axis=-1), np.tile(labels[chosen], views))
    checksum = hashlib.md5(images.pixels.tobytes()).hexdigest()
    return CleanDataset(
        name="digits",
        classes=tuple(str(digit) for digit in range(10)),
        clean=images.first(limit),
        mirrored=False,
        provenance={
            "source": f"scikit-learn digits, {split}, views of each: {views}",
            "md5": checksum,
        },
    )


def _scans() -> tuple[NDArray[np.int64], Labels]:
    """All grey scans, (1797, 8, 8) in 0..16, and their labels."""
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError(
            "the digits dataset comes with scikit-learn, which is not installed: "
            "run `pip install scikit-learn`, or choose another dataset"
        )
    # its own loader reads the same file, after more than a second of importing
    file = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    if file.exists():
        table = np.loadtxt(file, delimiter=",", dtype=np.float64).astype(np.int64)
        return table[:, :-1].reshape(-1, 8, 8), table[:, -1]
    from sklearn.datasets import load_digits as bundled

    scans = bundled()
    return scans.images.astype(np.int64), scans.target.astype(np.int64)


def _in_train(labels: Labels) -> NDArray[np.bool_]:
    """Which scans are for training: (N,), ``TRAIN_IMAGES`` of them true.

    Scans are sorted by class and, inside a class, by a hash of their position, which no version
    of a random generator can change; then an evenly spaced share is taken, so each class gives
    its part.
    """
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(len(labels))]
    order = sorted(range(len(labels)), key=lambda i: (labels[i], keys[i]))
    steps = np.arange(len(labels) + 1) * TRAIN_IMAGES // len(labels)
    chosen = np.zeros(len(labels), np.bool_)
    chosen[order] = np.diff(steps) == 1
    return chosen


def _enlarge(grey: NDArray[np.int64]) -> Pixels:
    """Bilinear (N, 8, 8) → (N, 32, 32, 1), pixel centres aligned, borders repeated.

    The weights are eighths, so integers hold every step and all machines agree to the bit.
    """
    weights = _bilinear_eighths(_NATIVE_SIDE, SIDE)
    scaled = weights @ grey @ weights.T
    unit = 64 * _NATIVE_MAXIMUM
    pixels = (scaled * 255 + unit // 2) // unit
    grey_levels: Pixels = pixels.astype(np.uint8)[..., None]
    return grey_levels


def _bilinear_eighths(old: int, new: int) -> NDArray[np.int64]:
    """Weights (new, old) of fourfold bilinear enlargement, in eighths: each row sums to 8."""
    # centre of new pixel i, in eighths of an old pixel, measured from the first old centre
    position = np.clip(2 * np.arange(new) - 3, 0, 8 * (old - 1))
    lower, part = np.divmod(position, 8)
    weights = np.zeros((new, old), np.int64)
    rows = np.arange(new)
    weights[rows, lower] += 8 - part
    weights[rows, np.minimum(lower + 1, old - 1)] += part
    return weights
