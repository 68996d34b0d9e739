"""``rotta corrupt``: a corrupted test set on disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rotta.cli import options
from rotta.cli.console import download_question, progress_bar, say

if TYPE_CHECKING:
    from rotta.datasets import Dataset


def corrupt(
    out: Annotated[
        Path,
        typer.Option(
            help="The folder to write; or a .png or .svg, to look at one image first.",
            metavar="DIR",
        ),
    ],
    dataset: Annotated[
        str, typer.Option(help="A clean dataset: digits, cifar10 or cifar100.")
    ] = "digits",
    corruptions: Annotated[
        str | None, typer.Option(help="Names a,b; all fifteen if left out.", metavar="NAMES")
    ] = None,
    severities: Annotated[str, typer.Option(help="From 1 to 5.")] = "1,2,3,4,5",
    limit: options.Limit = None,
    seed: options.Seed = 0,
    frost: options.Frost = None,
    device: options.Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files of an earlier run.")
    ] = False,
    yes: options.Yes = False,
) -> None:
    """Corrupt a clean test set into a folder in the layout of CIFAR-10-C.

    Writes `<corruption>.npy` with the severities stacked, `labels.npy`, and `provenance.json`.
    Read it back as `corrupted:DIR`, or with any loader for the published sets.

    Example: `rotta corrupt --dataset cifar10 --corruptions fog,snow --out CIFAR-10-C`
    """
    from rotta.corruptions import load_textures
    from rotta.datasets import DOMAIN_ORDER, load_dataset, write_corrupted
    from rotta.datasets.corrupted_writer import checked_corruptions, checked_severities

    named = options.names(corruptions) if corruptions is not None else DOMAIN_ORDER
    chosen = checked_corruptions(named)
    levels = checked_severities(options.whole_numbers(severities, "--severities"))
    if out.suffix.lower() in {".jpg", ".jpeg", ".gif", ".pdf", ".webp", ".npy"}:
        raise ValueError(f"{out.name} is no folder: a picture ends in .png or .svg")
    with progress_bar("loading") as progress:
        clean = load_dataset(
            dataset, limit=limit, download=download_question(yes), progress=progress
        )
    if out.suffix.lower() in {".png", ".svg"}:
        _draw(clean, out, chosen, levels, seed, frost)
        return
    with progress_bar("corrupting") as progress:
        write_corrupted(
            clean,
            out,
            corruptions=chosen,
            severities=levels,
            seed=seed,
            frost=frost,
            device=options.pick_device(device),
            overwrite=overwrite,
            progress=progress,
        )
    count = len(clean.domain("clean").labels)
    say(
        f"{out}: {len(chosen)} corruptions × {len(levels)} severities × {count:,} images",
    )
    if "frost" in chosen:
        say(f"frost pictures: {load_textures(frost).origin}")
    if len(levels) < 5:
        say(
            f"severities {severities} only: loaders for the published sets expect all five; "
            f"corrupted:{out} knows",
        )


def _draw(
    clean: "Dataset",
    out: Path,
    corruptions: tuple[str, ...],
    severities: tuple[int, ...],
    seed: int,
    frost: Path | None,
) -> None:
    """The first image, corrupted in every way that was asked for."""
    import numpy as np

    from rotta.corruptions import corrupt, load_textures
    from rotta.datasets.corrupted_writer import check_clean
    from rotta.report.image_grid import draw_grid

    check_clean(clean)
    image = clean.domain(clean.domains[0]).images(np.array([0])).float() / 255
    textures = load_textures(frost)
    rows = [
        [
            corrupt(image, name, severity, seed=seed, index=[0], textures=textures)[0]
            for name in corruptions
        ]
        for severity in severities
    ]
    draw_grid(rows, out, columns=corruptions, rows=[f"severity {s}" for s in severities])
    say(f"{out}: {len(corruptions)} corruptions × {len(severities)} severities")
