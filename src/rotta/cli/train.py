"""``rotta train``: a source model."""

from pathlib import Path
from typing import Annotated

import typer

from rotta.cli import options
from rotta.cli.console import download_question, progress_bar, say


def train(
    arch: Annotated[str, typer.Option(help="Such as wrn-40-2; a wrong name lists all.")],
    dataset: Annotated[
        str, typer.Option(help="digits, cifar10, cifar100, pacs, domainnet or domains:PATH.")
    ],
    out: Annotated[Path, typer.Option(help="The weights to write, .safetensors.", metavar="FILE")],
    domain: Annotated[
        str | None, typer.Option(help="Which domain, where there are several.", metavar="NAME")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Start from these weights: a file, a source's name, or imagenet (for "
            "efficientnet-lite0). Another number of classes is fine.",
            metavar="FILE",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the images.")] = 50,
    lr: Annotated[float, typer.Option(help="Largest learning rate.")] = 0.1,
    batch_size: Annotated[int, typer.Option(help="Images per step.")] = 128,
    weight_decay: Annotated[float, typer.Option(help="On all parameters.")] = 5e-4,
    label_smoothing: Annotated[float, typer.Option(help="From 0 to 1.")] = 0.0,
    image_size: options.ImageSize = None,
    limit: Annotated[
        int | None, typer.Option(help="Only the first N training images.", metavar="N", min=1)
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    yes: options.Yes = False,
) -> None:
    """Train a source model: SGD with momentum, cosine schedule, crops and mirror images.

    Killed? Give the same command again: it continues after the last finished epoch.

    Example: `rotta train --arch wrn-10-1 --dataset digits --out digits.safetensors`
    """
    from rotta.atomic import check_writable
    from rotta.models.train_to_file import Recipe, train_to_file

    if out.suffix != ".safetensors":
        raise ValueError(f"weights are written as safetensors: end {out} in .safetensors")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give --out the name of a file")
    if out.exists() and not out.with_name(out.name + ".training").exists():
        raise ValueError(f"{out} is there already: give --out another name, or remove it")
    check_writable(out)
    recipe = Recipe(
        arch=arch,
        dataset=dataset,
        domain=domain,
        init=init,
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        weight_decay=weight_decay,
        label_smoothing=label_smoothing,
        image_size=image_size,
        limit=limit,
        seed=seed,
    )
    trained = train_to_file(
        recipe,
        out,
        device=options.pick_device(device),
        download=download_question(yes),
        stage=progress_bar,
    )
    say(
        f"{out}: error {trained.error:.2f} % on the test images of {trained.domain}, "
        f"last loss {trained.last_loss:.4f}",
    )
