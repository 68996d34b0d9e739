"""From a recipe to a weight file: what ``rotta train`` does, and experiments too."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from rotta.datasets import Ask, Dataset, load_dataset
from rotta.models.architectures import build
from rotta.models.checkpoint import fits_half, save_weights
from rotta.models.classifier import Classifier
from rotta.models.scoring import error_rate
from rotta.models.sources import SIZE, build_from
from rotta.models.train import train
from rotta.progress import Progress

Stage = Callable[[str], AbstractContextManager[Progress | None]]
"""Shows how far a stage is: ``"loading"``, ``"training"`` or ``"testing"``."""


@dataclass(frozen=True)
class Recipe:
    """All that decides the weights; its fields are the options of ``rotta train``.

    Example:
        >>> Recipe(arch="wrn-10-1", dataset="digits", epochs=2, lr=0.1, batch_size=64).command()
        'rotta train --arch wrn-10-1 --dataset digits --epochs 2 --lr 0.1 --batch-size 64 \
--weight-decay 0.0005 --label-smoothing 0.0 --seed 0'
    """

    arch: str
    dataset: str
    epochs: int
    lr: float
    batch_size: int
    weight_decay: float = 5e-4
    label_smoothing: float = 0.0
    seed: int = 0
    domain: str | None = None
    init: str | None = None
    image_size: int | None = None
    limit: int | None = None
    """Only the first so many training images."""

    def command(self) -> str:
        """What to type to make the weights again."""
        stated = {name.replace("_", "-"): value for name, value in asdict(self).items()}
        words = [f"--{name} {value}" for name, value in stated.items() if value is not None]
        return " ".join(["rotta train", *words])


@dataclass(frozen=True)
class Trained:
    """How a training ended."""

    domain: str
    error: float
    """On the test images of that domain, in percent."""
    last_loss: float


def _unseen(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def train_to_file(
    recipe: Recipe,
    out: Path,
    *,
    device: torch.device | str = "cpu",
    download: Ask | None = None,
    stage: Stage = _unseen,
) -> Trained:
    """Train a source model, measure it on its own domain's test images, and write it.

    After each epoch everything is kept in ``<out>.training``. If that is there, the training
    continues from it, to the same weights; when ``out`` is written, it goes.

    Args:
        recipe: What to train, on what, and how.
        out: The file to write, ``.safetensors``: whole or not there. Its metadata say what it is,
            how to make it again, and its error.
        device: Where to compute.
        download: As of :func:`rotta.load_dataset`.
        stage: Shows how far each stage is.

    Raises:
        FileNotFoundError: Images or the weights to start from are missing.
        ValueError: The recipe cannot work, or ``<out>.training`` is of another one.
    """
    with stage("loading") as progress:
        data, test = (
            load_dataset(
                recipe.dataset,
                split=split,
                limit=limit,
                image_size=recipe.image_size,
                download=download,
                progress=progress,
            )
            for split, limit in (("train", recipe.limit), ("test", None))
        )
    unfinished = out.with_name(out.name + ".training")
    model = _start(recipe, len(data.classes))
    with stage("training") as progress:
        losses = train(
            model,
            data,
            domain=recipe.domain,
            epochs=recipe.epochs,
            lr=recipe.lr,
            batch_size=recipe.batch_size,
            weight_decay=recipe.weight_decay,
            label_smoothing=recipe.label_smoothing,
            seed=recipe.seed,
            device=device,
            checkpoint=unfinished,
            progress=progress,
        )
    domain = recipe.domain or data.domains[0]
    with stage("testing") as progress:
        error = error_rate(model, test.domain(domain), device=device, progress=progress)
    metadata = _metadata(recipe, data, domain, error)
    save_weights(out, model, metadata, half=fits_half(model))
    unfinished.unlink(missing_ok=True)
    return Trained(domain, error, losses[-1])


def _start(recipe: Recipe, classes: int) -> Classifier:
    if recipe.init is None:
        return build(recipe.arch, classes, seed=recipe.seed)
    return build_from(recipe.init, recipe.arch, classes, seed=recipe.seed)


def _metadata(recipe: Recipe, data: Dataset, domain: str, error: float) -> dict[str, str]:
    return {
        "arch": recipe.arch,
        "classes": str(len(data.classes)),
        "dataset": data.name,
        "domain": domain,
        SIZE: str(_side(data, domain)),
        "training": recipe.command(),
        "clean_test_error": f"{error:.2f}",
    }


def _side(data: Dataset, domain: str) -> int:
    return data.domain(domain).images(np.arange(1)).shape[-1]
