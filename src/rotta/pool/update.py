"""One step of robust training for several streams at once (RoTTA, Eqs. 7 to 11)."""

from typing import NamedTuple

import torch
from torch import Tensor

from rotta.pool.network import PooledNetwork
from rotta.pool.numbers import MOMENTS, STUDENT, TEACHER

_BETAS = 0.9, 0.999
_EPSILON = 1e-8


class Lesson(NamedTuple):
    """What G streams learn from, N samples each: one of every stream, then the next of every, …"""

    weak: Tensor
    """What the banks hold, (N·G, C, H, W)."""
    strong: Tensor
    """Strong views of it."""
    weight: Tensor
    """Timeliness of each sample, (N·G,)."""
    steps: Tensor
    """How many steps Adam will have taken, this one included, (G,), float64."""
    rates: Tensor
    """Learning rates, (G,), float32, to which PyTorch's fused Adam rounds them."""


@torch.no_grad()
def update(
    network: PooledNetwork, held: Tensor, lesson: Lesson, *, alpha: float, nu: float
) -> Tensor:
    """Move statistics, γ and β of the teachers and students of some streams.

    Args:
        network: Serves all of them.
        held: Their numbers, (14, G, ΣC); changed.
        lesson: What they learn from.
        alpha: α, share of the banks in the new statistics.
        nu: ν, how fast a teacher follows its student.

    Returns:
        Their numbers then.
    """
    teacher, student = held[TEACHER], held[STUDENT]
    belief = network.moved_logits(lesson.weak, teacher[:2], teacher[2:], alpha).softmax(dim=1)
    learning = student[2:].clone().requires_grad_()
    with torch.enable_grad():
        log_p = network.moved_logits(lesson.strong, student[:2], learning, alpha).log_softmax(dim=1)
        cross_entropy = -(belief * log_p).sum(dim=1)
        # the sum of each stream's mean: no stream's numbers reach another's
        loss = (lesson.weight * cross_entropy).sum() * (held.shape[1] / len(lesson.weak))
    (gradient,) = torch.autograd.grad(loss, learning)
    _adam_step(student[2:], gradient, held[MOMENTS], lesson.steps, lesson.rates)
    teacher[2:].lerp_(student[2:], nu)  # Eq. 11
    return held


@torch.no_grad()
def follow(
    network: PooledNetwork, weak: Tensor, statistics: Tensor, affine: Tensor, *, alpha: float
) -> Tensor:
    """Move the statistics of the unlearnt networks of G streams towards their banks'.

    Args:
        network: Serves all of them.
        weak: What the banks hold, (N·G, C, H, W), as in a lesson.
        statistics: μ and σ² of these networks, (2, G, ΣC); changed.
        affine: Their γ and β, (2, G, ΣC).
        alpha: Share of the banks in the new statistics.

    Returns:
        The statistics then.
    """
    network.moved_logits(weak, statistics, affine, alpha)
    return statistics


def _adam_step(
    affine: Tensor, gradient: Tensor, moments: Tensor, steps: Tensor, rates: Tensor
) -> None:
    """Adam, with a count of steps and a rate for each stream.

    Args:
        affine: γ and β, (2, G, ΣC); changed.
        gradient: (2, G, ΣC).
        moments: Means of the gradients of both, then of their squares, (4, G, ΣC); changed.
        steps: (G,), float64.
        rates: (G,), float32.
    """
    mean, square = moments[:2], moments[2:]
    mean.lerp_(gradient, 1 - _BETAS[0])
    square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
    size = (rates.double() / (1 - _BETAS[0] ** steps)).to(affine.dtype)[:, None]
    correction = (1 - _BETAS[1] ** steps).sqrt().to(affine.dtype)[:, None]
    affine.sub_(size * mean / (square.sqrt() / correction + _EPSILON))
