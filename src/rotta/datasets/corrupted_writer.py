"""Writing a corrupted test set in the layout of CIFAR-10-C, with a record of how it was made."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from rotta.atomic import replacing
from rotta.corruptions import SEVERITIES, check_severity, load_textures
from rotta.datasets.base import Dataset, ImageSet
from rotta.datasets.corrupted_folder import (
    DOMAIN_ORDER,
    LABELS_FILE,
    PROVENANCE_FILE,
)
from rotta.datasets.generated import GENERATION, CorruptionRecipe, corrupted_pieces, new_stack
from rotta.progress import Progress
from rotta.registry import lookup
from rotta.versions import versions


def write_corrupted(
    dataset: Dataset,
    out: Path,
    *,
    corruptions: Iterable[str] = DOMAIN_ORDER,
    severities: Iterable[int] = SEVERITIES,
    seed: int = 0,
    frost: Path | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Corrupt a clean dataset into ``out``; ``corrupted:<out>`` reads it back.

    Writes ``<corruption>.npy``, uint8 (S·N, H, W, 3), ``labels.npy``, int64 (S·N,), and
    ``provenance.json``. With all five severities this is exactly the published layout; with
    fewer, the stacks hold only those, in ascending order, and ``provenance.json`` says which.
    Each file appears when it is complete, the labels last, so an interrupted folder is never
    taken for a whole one.

    Args:
        dataset: With the one domain ``clean``, such as ``digits`` or ``cifar10``.
        out: The folder, made if need be.
        corruptions: Names from ``rotta.corruptions.CORRUPTIONS``.
        severities: From 1 to 5.
        seed: Of all that is random in the corruptions.
        frost: A folder of frost pictures, instead of those found by themselves.
        device: Where to compute.
        overwrite: Replace the files of an earlier run.
        progress: Called with the images written and the images in all.

    Raises:
        ValueError: A name or severity is unknown, the dataset is not a clean one, or files would
            be overwritten; nothing has been written then.
    """
    names = checked_corruptions(corruptions)
    levels = checked_severities(severities)
    check_clean(dataset)
    recipe = CorruptionRecipe(seed, load_textures(frost), device)
    images = dataset.domain("clean")
    _make_room(out, names, overwrite)
    steps = len(names) * len(levels) * len(images.labels)
    for position, name in enumerate(names):
        before = position * len(levels) * len(images.labels)
        report = _shifted(progress, before, steps)
        _write_stack(out / f"{name}.npy", images, name, levels, recipe, report)
    record = {
        "dataset": dataset.name,
        "classes": dataset.classes,
        "mirrored": dataset.mirrored,
        "images": len(images.labels),
        "corruptions": names,
        "severities": levels,
        "seed": seed,
        "frost": recipe.frost,
        "source": dict(dataset.provenance),
        "generation": GENERATION,
        "versions": versions(),
    }
    with replacing(out / PROVENANCE_FILE) as temporary:
        temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    # last: without labels a folder is not read
    with replacing(out / LABELS_FILE) as temporary:
        np.save(temporary, np.tile(images.labels, len(levels)))


def check_clean(dataset: Dataset) -> None:
    """Raise ``ValueError`` unless the dataset has the one domain ``clean``."""
    if dataset.domains != ("clean",):
        raise ValueError(
            f"{dataset.name} has the domains {', '.join(dataset.domains)}; only a clean dataset "
            "such as digits, cifar10 or cifar100 can be corrupted"
        )


def checked_corruptions(corruptions: Iterable[str]) -> tuple[str, ...]:
    """The names, each once, as they came."""
    names = tuple(dict.fromkeys(corruptions))
    if not names:
        raise ValueError("no corruption was named; name at least one, such as fog")
    for name in names:
        lookup(dict.fromkeys(DOMAIN_ORDER), name, "corruption")
    return names


def checked_severities(severities: Iterable[int]) -> tuple[int, ...]:
    """The severities, each once, ascending."""
    levels = tuple(sorted(set(severities)))
    if not levels:
        raise ValueError("no severity was named; name at least one from 1 to 5")
    for severity in levels:
        check_severity(severity)
    return levels


def _make_room(out: Path, names: tuple[str, ...], overwrite: bool) -> None:
    """Refuse to overwrite, or else unmark the folder as complete before its files change.

    Stacks of an earlier run that this one would not replace are refused always: they might hold
    other images, and other people's loaders do not read our record.
    """
    others = sorted({path.stem for path in out.glob("*.npy")} - {*names, "labels"})
    if others:
        raise ValueError(f"{out} also holds {', '.join(others)}: choose another folder")
    closing = [out / LABELS_FILE, out / PROVENANCE_FILE]
    existing = [path for path in (*(out / f"{n}.npy" for n in names), *closing) if path.exists()]
    if existing and not overwrite:
        found = ", ".join(path.name for path in existing)
        raise ValueError(f"{out} already holds {found}; choose another folder, or --overwrite")
    for path in closing:
        path.unlink(missing_ok=True)


def _write_stack(
    path: Path,
    images: ImageSet,
    corruption: str,
    severities: tuple[int, ...],
    recipe: CorruptionRecipe,
    progress: Progress | None,
) -> None:
    """One corruption at all its severities, streamed to its file."""
    count = len(images.labels)
    _, channels, height, width = images.images(np.zeros(1, np.int64)).shape
    shape = (len(severities) * count, height, width, channels)
    with replacing(path) as temporary:
        stack = new_stack(temporary, shape)
        for block, severity in enumerate(severities):
            offset = block * count
            for piece, pixels in corrupted_pieces(images, count, corruption, severity, recipe):
                stack[offset + piece.start : offset + piece.stop] = pixels
                if progress:
                    progress(offset + piece.stop, len(stack))
        stack.flush()


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """A callback for one file that reports to the callback of all files."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)
