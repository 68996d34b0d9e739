"""``rotta train``: a source model."""

from pathlib import Path
from typing import Annotated

import typer

from rotta.cli import options
from rotta.cli.console import download_question, progress_bar, say


def train(
    arch: Annotated[str, typer.Option(help="Such as wrn-40-2; a wrong name lists all.")],
    dataset: Annotated[str, typer.Option(help="digits, cifar10, cifar100 or domains:PATH.")],
    out: Annotated[Path, typer.Option(help="The weights to write, .safetensors.", metavar="FILE")],
    domain: Annotated[
        str | None, typer.Option(help="Which domain of `domains:PATH`.", metavar="NAME")
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
    seed: options.Seed = 0,
    device: options.Device = "auto",
    yes: options.Yes = False,
) -> None:
    """Train a source model: SGD with momentum, cosine schedule, crops and mirror images.

    Killed? Give the same command again: it continues after the last finished epoch.

    Example: `rotta train --arch wrn-10-1 --dataset digits --out digits.safetensors`
    """
    from rotta.datasets import load_dataset
    from rotta.models import build, build_from, error_rate, save_weights
    from rotta.models import train as train_model

    if out.suffix != ".safetensors":
        raise ValueError(f"weights are written as safetensors: end {out} in .safetensors")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give --out the name of a file")
    where = options.pick_device(device)
    ask = download_question(yes)
    with progress_bar("loading") as progress:
        data, test = (
            load_dataset(
                dataset, split=split, image_size=image_size, download=ask, progress=progress
            )
            for split in ("train", "test")
        )
    classes = len(data.classes)
    model = build_from(init, arch, classes, seed=seed) if init else build(arch, classes, seed=seed)
    unfinished = out.with_name(out.name + ".training")
    with progress_bar(f"training {arch}") as progress:
        losses = train_model(
            model,
            data,
            domain=domain,
            epochs=epochs,
            lr=lr,
            batch_size=batch_size,
            weight_decay=weight_decay,
            label_smoothing=label_smoothing,
            seed=seed,
            device=where,
            checkpoint=unfinished,
            progress=progress,
        )
    trained_on = domain or data.domains[0]
    with progress_bar("testing") as progress:
        error = error_rate(model, test.domain(trained_on), device=where, progress=progress)
    metadata = {
        "arch": arch,
        "classes": str(classes),
        "dataset": data.name,
        "domain": trained_on,
        "training": _command(
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
            seed=seed,
        ),
        "clean_test_error": f"{error:.2f}",
    }
    save_weights(out, model, metadata, half=True)
    unfinished.unlink(missing_ok=True)
    say(
        f"{out}: error {error:.2f} % on the test images of {trained_on}, "
        f"last loss {losses[-1]:.4f}",
    )


def _command(**given: object) -> str:
    """What to type to make these weights again; it goes into the file."""
    stated = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    return " ".join(["rotta train", *(f"--{name} {value}" for name, value in stated.items())])
