"""Train a source network: SGD, cosine schedule, crops and mirror images; resumable to the bit."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rotta.atomic import replacing
from rotta.datasets.base import Dataset, ImageSet
from rotta.models.checksum import checksum
from rotta.models.classifier import Classifier
from rotta.models.crops import random_crops
from rotta.models.loading import load_into
from rotta.progress import Progress

MOMENTUM = 0.9
WARM_UP = 0.05
"""Share of the steps in which the learning rate rises."""


@dataclass(frozen=True)
class TrainingPlan:
    """What a training was asked for; a checkpoint continues only the same."""

    dataset: str
    domain: str
    images: int
    side: int
    start: str
    """Checksum of the weights before the first step: of architecture, --init and seed, that is."""
    epochs: int
    lr: float
    batch_size: int
    weight_decay: float
    label_smoothing: float
    seed: int


def train(
    model: Classifier,
    dataset: Dataset,
    *,
    epochs: int,
    domain: str | None = None,
    lr: float = 0.1,
    batch_size: int = 128,
    weight_decay: float = 5e-4,
    label_smoothing: float = 0.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> list[float]:
    """Train in place: Nesterov SGD, a short linear warm-up, then cosine decay to zero.

    Images are shifted by up to an eighth of their side, and mirrored where the dataset allows it.
    An incomplete last batch is dropped; each epoch shuffles anew. The same seed on the same device
    gives the same weights, also when the training is killed and continued from ``checkpoint``.

    Args:
        model: Starts from the weights it has; ends in evaluation mode on ``device``.
        dataset: What to train on.
        epochs: Passes over the images.
        domain: Which domain; may be left out if there is only one.
        lr: Largest learning rate.
        batch_size: Images per step.
        weight_decay: On all parameters.
        label_smoothing: Share of the target that goes evenly to all classes, in [0, 1).
        seed: Of the order and the crops. `build` has one for the fresh weights.
        device: Where to compute.
        checkpoint: Written after each epoch; if it exists, the training continues from it.
        progress: Called with the steps done and the steps in all.

    Returns:
        The mean loss of each epoch.

    Raises:
        ValueError: Settings that cannot work, a checkpoint of another training, or a loss that is
            no longer a number.
    """
    domain = _choose_domain(dataset, domain)
    images = dataset.domain(domain)
    total = len(images.labels)
    plan = TrainingPlan(
        dataset=dataset.name,
        domain=domain,
        images=total,
        side=images.images(np.arange(min(1, total))).shape[-1],
        start=checksum(model),
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        weight_decay=weight_decay,
        label_smoothing=label_smoothing,
        seed=seed,
    )
    _check(plan, model, len(dataset.classes))
    run = _Run(model, plan, dataset.mirrored, torch.device(device))
    if checkpoint is not None and checkpoint.exists():
        run.resume(checkpoint)
    with _deterministic_convolutions():
        for _ in range(len(run.losses), epochs):
            run.epoch(images, progress)
            if checkpoint is not None:
                run.save(checkpoint)
    model.eval()
    return run.losses


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear rise over the first `WARM_UP` of the steps, then half a cosine down to zero.

    Example:
        >>> [round(learning_rate(step, 100, peak=1.0), 2) for step in (0, 4, 52, 99)]
        [0.2, 1.0, 0.51, 0.0]
    """
    rise = max(1, round(steps * WARM_UP))
    if step < rise:
        return peak * (step + 1) / rise
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


class _Run:
    """One training: all that changes while it runs, so that saving and resuming miss nothing."""

    def __init__(
        self, model: Classifier, plan: TrainingPlan, mirror: bool, device: torch.device
    ) -> None:
        self.model = model.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.plan = plan
        self.mirror = mirror
        self.device = device
        self.optimiser = torch.optim.SGD(
            model.parameters(),
            lr=plan.lr,
            momentum=MOMENTUM,
            weight_decay=plan.weight_decay,
            nesterov=True,
        )
        self.generator = torch.Generator().manual_seed(plan.seed)
        self.losses: list[float] = []

    def epoch(self, images: ImageSet, progress: Progress | None) -> None:
        plan = self.plan
        steps_per_epoch = max(1, plan.images // plan.batch_size)
        step, steps = len(self.losses) * steps_per_epoch, plan.epochs * steps_per_epoch
        labels = torch.from_numpy(images.labels)
        order = torch.randperm(plan.images, generator=self.generator)
        loss_sum = torch.zeros((), device=self.device)
        self.model.train()
        for batch in torch.split(order, plan.batch_size)[:steps_per_epoch]:
            for group in self.optimiser.param_groups:
                group["lr"] = learning_rate(step, steps, plan.lr)
            loss_sum += self._step(images.images(batch.numpy()), labels[batch])
            step += 1
            if progress:
                progress(step, steps)
        mean_loss = loss_sum.item() / steps_per_epoch
        if not math.isfinite(mean_loss):
            raise ValueError(
                f"the loss is {mean_loss} in epoch {len(self.losses) + 1}: lower lr={plan.lr}"
            )
        self.losses.append(mean_loss)

    def _step(self, pixels: Tensor, y: Tensor) -> Tensor:
        """One update on uint8 images, (B, 3, H, W); returns the detached loss."""
        x = random_crops(
            pixels.to(self.device).float() / 255, self.generator, mirror=self.mirror
        ).contiguous(memory_format=torch.channels_last)
        logits = self.model(x)
        smoothing = self.plan.label_smoothing
        loss = F.cross_entropy(logits, y.to(self.device), label_smoothing=smoothing)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def save(self, path: Path) -> None:
        state = {
            "plan": asdict(self.plan),
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "losses": self.losses,
        }
        try:
            with replacing(path) as temporary:
                torch.save(state, temporary)
        except RuntimeError as error:  # how PyTorch says that the disk is full
            raise OSError(f"{path} could not be written ({error}): is the disk full?") from error

    def resume(self, path: Path) -> None:
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
            written = dict(state["plan"])
        except Exception as error:  # a foreign file can fail in any way at all
            raise ValueError(
                f"{path} is no checkpoint of a training: give another path or delete it"
            ) from error
        own = asdict(self.plan)
        changed = [f"{key} was {written.get(key)}" for key in own if written.get(key) != own[key]]
        if changed:
            raise ValueError(
                f"{path} is of another training ({', '.join(changed)}): "
                "ask for the same, or delete it to start anew"
            )
        load_into(self.model, state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"].cpu())
        self.losses = state["losses"]


def _choose_domain(dataset: Dataset, domain: str | None) -> str:
    if domain is not None:
        return domain
    if len(dataset.domains) != 1:
        raise ValueError(
            f"{dataset.name} has several domains, say which to train on: "
            f"{', '.join(dataset.domains)}"
        )
    return dataset.domains[0]


def _check(plan: TrainingPlan, model: Classifier, classes: int) -> None:
    if model.head.out_features != classes:
        raise ValueError(
            f"{plan.dataset} has {classes} classes, the network {model.head.out_features}: "
            f"build it with num_classes={classes}"
        )
    if plan.epochs < 1 or plan.batch_size < 2 or not 0 < plan.lr < math.inf:
        raise ValueError(
            "training needs epochs ≥ 1, lr > 0 and, for batch statistics, batch_size ≥ 2; got "
            f"{plan.epochs}, {plan.lr} and {plan.batch_size}"
        )
    if not 0 <= plan.label_smoothing < 1:
        raise ValueError(f"label_smoothing must be in [0, 1), not {plan.label_smoothing}")
    if not 0 <= plan.weight_decay < math.inf:
        raise ValueError(f"weight_decay must be 0 or more, not {plan.weight_decay}")
    if plan.images < 2:
        raise ValueError(f"{plan.dataset} has {plan.images} images here: too few to train on")


@contextmanager
def _deterministic_convolutions() -> Iterator[None]:
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = before
