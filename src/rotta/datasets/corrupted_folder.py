"""Reading a folder in the layout of CIFAR-10-C: one stack of all severities per corruption."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotta.corruptions import SEVERITIES
from rotta.datasets.arrays import ArrayImages, Pixels
from rotta.datasets.base import Labels
from rotta.registry import lookup

DOMAIN_ORDER = (
    "motion_blur",
    "snow",
    "fog",
    "shot_noise",
    "defocus_blur",
    "contrast",
    "zoom_blur",
    "brightness",
    "frost",
    "elastic_transform",
    "glass_blur",
    "gaussian_noise",
    "pixelate",
    "jpeg_compression",
    "impulse_noise",
)
"""The fifteen corruptions in the order in which the paper's tables visit them."""

_MOST_CLASSES = 100_000  # a larger label is damage, not a class

LABELS_FILE = "labels.npy"
PROVENANCE_FILE = "provenance.json"


@dataclass
class CorruptedFolder:
    """A dataset whose domains are memory-mapped stacks, ``<corruption>.npy``.

    A stack is uint8, (S·N, H, W, 3): N images at the lowest severity, then the same N at the
    next. The published sets hold five severities; a folder written by ``write_corrupted`` may
    hold fewer, and its ``provenance.json`` says which.
    """

    name: str
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    mirrored: bool
    provenance: Mapping[str, str]
    stacks: Mapping[str, Pixels]
    labels: Labels
    """One per image of a stack, (S·N,)."""
    severities: tuple[int, ...]
    limit: int | None = None

    def domain(self, name: str, severity: int = 5) -> ArrayImages:
        """The images of one corruption at one severity.

        Raises:
            ValueError: The folder lacks this corruption or this severity.
        """
        stack = lookup(self.stacks, name, f"domain of {self.name}")
        if severity not in self.severities:
            held = ", ".join(str(s) for s in self.severities)
            raise ValueError(f"{self.name} holds severity {held}, not {severity}; ask for one held")
        count = len(stack) // len(self.severities)
        start = self.severities.index(severity) * count
        block = slice(start, start + count)
        return ArrayImages(stack[block], self.labels[block]).first(self.limit)


def open_folder(
    folder: Path,
    *,
    name: str | None = None,
    classes: tuple[str, ...] | None = None,
    domains: tuple[str, ...] | None = None,
    limit: int | None = None,
) -> CorruptedFolder:
    """Open a folder in the published layout, and check every file of it.

    Args:
        folder: Holds ``labels.npy`` and one ``<corruption>.npy`` per corruption.
        name: What to call the dataset; ``corrupted:<folder>`` by default.
        classes: Their names; by default what ``provenance.json`` says, or else numbers.
        domains: The corruptions that must be there; by default those that are, the paper's
            fifteen first and in the paper's order.
        limit: Only the first so many images of each domain.

    Raises:
        FileNotFoundError: The folder, its labels or a corruption is missing.
        ValueError: A file is damaged, or its shape does not fit the others'.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; write one with `rotta corrupt`")
    labels_path = folder / LABELS_FILE
    if not labels_path.is_file():
        raise FileNotFoundError(
            f"{labels_path} is missing: the folder is incomplete; write or unpack it again"
        )
    written = _read_provenance(folder / PROVENANCE_FILE)
    severities = tuple(written.get("severities", SEVERITIES))
    if domains is None:
        domains = tuple(written.get("corruptions") or _present(folder))
    stacks = _open_stacks(folder, domains)
    labels = _fit_labels(_load(labels_path), stacks[domains[0]], severities, labels_path)
    if classes is None:
        numbered = tuple(str(number) for number in range(int(labels.max()) + 1))
        classes = tuple(written.get("classes", numbered))
    return CorruptedFolder(
        name=name or f"corrupted:{folder}",
        classes=classes,
        domains=domains,
        mirrored=bool(written.get("mirrored", True)),
        provenance={"folder": str(folder), **{k: str(v) for k, v in written.items()}},
        stacks=stacks,
        labels=labels,
        severities=severities,
        limit=limit,
    )


def _read_provenance(path: Path) -> dict[str, Any]:
    """What ``write_corrupted`` recorded, or nothing for a published folder."""
    if not path.is_file():
        return {}
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); write the folder again") from error
    lists = ("severities", "corruptions", "classes")
    if not isinstance(written, dict) or not all(
        isinstance(written.get(key), list) and written[key] for key in lists
    ):
        raise ValueError(f"{path} lacks a list of {', '.join(lists)}; write the folder again")
    return written


def _present(folder: Path) -> tuple[str, ...]:
    """The corruptions in a folder, the paper's first, then others alphabetically."""
    names = {path.stem for path in folder.glob("[!.]*.npy")} - {Path(LABELS_FILE).stem}
    if not names:
        raise FileNotFoundError(f"{folder} holds no corruption, no file such as fog.npy")
    return (
        *(name for name in DOMAIN_ORDER if name in names),
        *sorted(names.difference(DOMAIN_ORDER)),
    )


def _open_stacks(folder: Path, domains: tuple[str, ...]) -> dict[str, Pixels]:
    """Map every stack; all must be 8-bit RGB images of one shape."""
    absent = [f"{name}.npy" for name in domains if not (folder / f"{name}.npy").is_file()]
    if absent:
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(absent)}; complete it, or read what there is as "
            f"corrupted:{folder}"
        )
    stacks = {name: _load(folder / f"{name}.npy") for name in domains}
    expected = stacks[domains[0]].shape
    for name, stack in stacks.items():
        if stack.dtype != np.uint8 or stack.ndim != 4 or stack.shape[3] != 3:
            raise ValueError(
                f"{folder / name}.npy holds {stack.dtype} {stack.shape}, "
                "not uint8 images (N, H, W, 3); replace it"
            )
        if stack.shape != expected:
            raise ValueError(
                f"{folder / name}.npy has shape {stack.shape}, but {domains[0]}.npy has "
                f"{expected}; replace the wrong one"
            )
    return stacks


def _load(path: Path) -> NDArray[Any]:
    """Map a ``.npy`` file that holds plain numbers."""
    try:
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is damaged ({error}); replace it") from error
    return mapped


def _fit_labels(
    labels: NDArray[Any], stack: Pixels, severities: tuple[int, ...], path: Path
) -> Labels:
    """Labels for every image of a stack, (S·N,), from either S·N or N of them."""
    images, blocks = len(stack), len(severities)
    numbers = labels.dtype.kind in "iu" and labels.size > 0
    if numbers and not 0 <= labels.min() <= labels.max() < _MOST_CLASSES:
        raise ValueError(
            f"{path} holds labels from {labels.min()} to {labels.max()}; they must count the "
            "classes from 0"
        )
    if images and labels.ndim == 1 and images % blocks == 0 and labels.dtype.kind in "iu":
        if len(labels) == images:
            return labels.astype(np.int64)
        if len(labels) * blocks == images:
            return np.tile(labels.astype(np.int64), blocks)
    raise ValueError(
        f"{path} holds {labels.dtype} {labels.shape}, which does not label {images} images at "
        f"{blocks} severities; expected whole numbers, ({images},) or ({images // blocks},)"
    )
