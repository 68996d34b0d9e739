"""CoTTA: continual test-time domain adaptation (Wang, Fink, Van Gool and Dai, CVPR 2022)."""

import math
from collections.abc import Iterator
from typing import Unpack

import torch
from torch import Tensor, nn

from rotta.adapters.adam import adam, descend
from rotta.adapters.base import Adapter
from rotta.adapters.checks import check_at_least_one, check_between
from rotta.adapters.common import CommonOptions
from rotta.adapters.precision import FULL, check_precision, computing_in
from rotta.nn.augment import drawn_strong_views
from rotta.nn.batch_stats import BatchStatNorm, separate_passes
from rotta.nn.device_draws import device_generator
from rotta.nn.fusion import fuse_relus
from rotta.nn.surgery import copy_of, copy_sharing_weights, move_towards, replace_batch_norms

CONFIDENCE_OF_TEN, CONFIDENCE_OF_MORE = 0.92, 0.72
"""The authors' for CIFAR-10 and CIFAR-100; ours: the first for anything up to ten classes."""


class CoTTA(Adapter):
    """Learn from a teacher that averages over augmented views; forget a little at random.

    All networks normalise with the batch's own statistics. Where the source is not sure of the
    batch, the teacher's logits are averaged over ``passes`` strong views of it, each normalised
    with its own statistics; else the plain teacher speaks. The student learns what it says, with
    all its parameters; the teacher follows; then a random share of the student's parameters
    returns to the source's.

    Args:
        net: A classifier; it is not changed.
        num_classes: C, the number of its outputs.
        passes: Strong views to average over.
        passes_at_once: How many of them go through the teacher together; the views are the same
            whatever it is. By default all on a GPU and 2 on a CPU, where that is twice as fast.
        confidence: Mean confidence of the source below which the views are averaged; by default
            0.92 up to ten classes, else 0.72.
        teacher_momentum: Share of itself that the teacher keeps per step.
        restore: Probability that a parameter returns to the source's.
        lr: Learning rate of Adam.
        precision: In which source and teacher predict: ``"float32"``, or on CUDA ``"float16"`` or
            ``"bfloat16"``, which is faster. Statistics stay in float32, and so does all
            that the student does.
        seed: Of the views and of what is restored.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Example:
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(192, 10))
        >>> CoTTA(net, num_classes=10)(torch.rand(4, 3, 8, 8)).shape
        torch.Size([4, 10])
    """

    STATE = ("optimiser", "generator")
    AUGMENTS = True
    FREE = ("seed", "passes_at_once", "precision")
    PASSES = 35

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        passes: int = 32,
        passes_at_once: int | None = None,
        confidence: float | None = None,
        teacher_momentum: float = 0.999,
        restore: float = 0.01,
        lr: float = 1e-3,
        precision: str = FULL,
        seed: int = 0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(net, num_classes, **common)
        if passes_at_once is None:
            on_cpu = all(p.device.type == "cpu" for p in net.parameters())
            passes_at_once = 2 if on_cpu else passes
        check_at_least_one(passes=passes, passes_at_once=passes_at_once)
        check_between(0, 1, teacher_momentum=teacher_momentum, restore=restore)
        check_between(0, math.inf, lr=lr)
        if confidence is None:
            confidence = CONFIDENCE_OF_TEN if num_classes <= 10 else CONFIDENCE_OF_MORE
        check_between(0, math.inf, confidence=confidence)
        check_precision(net, precision)
        self.passes = passes
        self.passes_at_once = passes_at_once
        self.confidence = confidence
        self.teacher_momentum = teacher_momentum
        self.restore = restore
        self.precision = precision
        self.source = _prepare(copy_sharing_weights(net))
        self.student = _prepare(copy_of(net)).requires_grad_(True)
        self.teacher = _prepare(copy_of(net))
        self.optimiser = adam(self.student.parameters(), lr)
        self.generator = torch.Generator().manual_seed(seed)

    def infer(self, x: Tensor) -> Tensor:
        """The teacher's logits, (B, num_classes), where it is needed averaged over views."""
        sure = self._logits(self.source, x).softmax(dim=1).amax(dim=1).mean()
        if sure >= self.confidence:
            return self._logits(self.teacher, x)
        return torch.stack(list(self._view_logits(x))).sum(dim=0) / self.passes

    def learn(self, x: Tensor, logits: Tensor) -> None:
        """Step towards the teacher's predictions; follow; restore."""
        with torch.enable_grad():
            log_p = self.logits(self.student, x).log_softmax(dim=1)
            loss = -(logits.softmax(dim=1) * log_p).sum(dim=1).mean()
        descend(loss, self.optimiser)
        student = list(self.student.parameters())
        move_towards(list(self.teacher.parameters()), student, 1 - self.teacher_momentum)
        self._restore(student)

    def _view_logits(self, x: Tensor) -> Iterator[Tensor]:
        """Sums of the teacher's logits, (B, C), over as many views as go through it at once."""
        for views in drawn_strong_views(x, self.generator, self.passes, self.passes_at_once):
            passes = len(views) // len(x)
            with separate_passes(self.teacher, passes):
                logits = self._logits(self.teacher, views)
            yield logits.view(passes, len(x), -1).sum(dim=0)

    def _logits(self, net: nn.Module, x: Tensor) -> Tensor:
        """In the images' own precision, computed in the chosen one."""
        with computing_in(self.precision, x.device):
            return self.logits(net, x).to(x.dtype)

    def _restore(self, student: list[nn.Parameter]) -> None:
        """Each parameter's entries return to the source's with probability ``restore``."""
        chosen = [self._share_of(own) for own in student]
        # to go all the way or none of it is exact
        torch._foreach_lerp_(list(student), list(self.source.parameters()), chosen)

    def _share_of(self, parameter: Tensor) -> Tensor:
        """1 for the entries that are restored, 0 for the others, drawn anew."""
        there = device_generator(self.generator, parameter.device)
        return torch.empty_like(parameter).uniform_(generator=there).lt_(self.restore)


def _prepare(net: nn.Module) -> nn.Module:
    """Normalising by the batch, frozen, in evaluation mode."""
    own = replace_batch_norms(net, BatchStatNorm.from_batchnorm)
    return fuse_relus(own.requires_grad_(False).eval())
