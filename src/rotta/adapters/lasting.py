"""RoTTA that lasts: for streams that come back to the same places again and again.

The paper's method learns for ever from its own predictions, and over many visits of the same
domains its γ and β drift until it is worse than the network it started from. Its statistics do
not: they forget. So what is learnt is held on a leash, and what is measured is how far it has gone
from the *anchor*: the source's own γ and β with the teacher's statistics of today. No source data
is needed.

With θ_S, θ_T and θ_0 for γ and β of student, teacher and source, p_A for the anchor's prediction of
the weak view, and everything else as in :mod:`rotta.adapters.rotta`, an update is

    L   = 1/N Σ E(age) · [CE(p_T, p_S) + λ_a · CE(p_A, p_S)]
    D   = 1/N Σ JS(p_T, p_A) / log 2                              in [0, 1]: how far it has gone
    θ_S ← θ_S − Adam(∂L/∂θ_S)
    θ_S ← θ_S + (κ + κ_D · D) · (θ_0 − θ_S)                       the leash, shorter the farther
    θ_T ← θ_T + ν · (1 − D)^s · (θ_S − θ_T)                       the teacher, slower the farther
"""

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from rotta.adapters.adam import descend
from rotta.adapters.base import check_between
from rotta.adapters.common import CommonOptions
from rotta.adapters.rotta import LOSS_SCALES, RoTTA
from rotta.nn.surgery import layers_training


class LastingRoTTA(RoTTA):
    """RoTTA on a leash to its source; the options below, all others are RoTTA's.

    Args:
        net: As for :class:`~rotta.adapters.rotta.RoTTA`.
        num_classes: How many classes it tells apart.
        anchor: λ_a, weight of the anchor's predictions among the targets.
        pull: κ, share of the way back to the source at every update.
        pull_by_divergence: κ_D, what is added to it per unit of divergence.
        slowing: s, how much the teacher slows down with divergence.

    Example:
        >>> import rotta
        >>> model = LastingRoTTA(rotta.load_source("digits"), num_classes=10)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    PASSES = 5

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        anchor: float = 1.0,
        pull: float = 0.0,
        pull_by_divergence: float = 0.1,
        slowing: float = 1.0,
        capacity: int = 64,
        update_every: int = 64,
        alpha: float = 0.05,
        nu: float = 0.001,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        lr: float = 1e-3,
        graphs: bool | None = None,
        precision: str = "float32",
        seed: int = 0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(
            net,
            num_classes,
            capacity=capacity,
            update_every=update_every,
            alpha=alpha,
            nu=nu,
            lambda_t=lambda_t,
            lambda_u=lambda_u,
            lr=lr,
            graphs=graphs,
            precision=precision,
            seed=seed,
            **common,
        )
        check_between(0, math.inf, anchor=anchor, slowing=slowing)
        check_between(0, 1, pull=pull, pull_by_divergence=pull_by_divergence)
        self.anchor = anchor
        self.pull = pull
        self.pull_by_divergence = pull_by_divergence
        self.slowing = slowing
        for number, parameter in enumerate(self._teacher_affine):
            # not part of the state: the network gives them again
            self.register_buffer(f"_source_{number}", parameter.detach().clone(), persistent=False)

    @property
    def _source_affine(self) -> list[Tensor]:
        """θ_0."""
        return [self.get_buffer(f"_source_{number}") for number in range(len(self._teacher_affine))]

    def _descend(self, weak: Tensor, strong: Tensor, weight: Tensor) -> None:
        """One update, as the head of this file states it."""
        anchor = self._anchor_logits(weak).softmax(dim=1)
        with layers_training(self._robust_norms):
            target = self._teacher_logits(weak).softmax(dim=1)
            with torch.enable_grad():
                log_p = self._logits(self.student, strong).log_softmax(dim=1)
                cross_entropy = -((target + self.anchor * anchor) * log_p).sum(dim=1)
                loss = (weight * cross_entropy).mean()
            descend(loss, self.optimiser, LOSS_SCALES.get(self.precision))
        gone = divergence(target, anchor)
        _move(self._student_affine, self._source_affine, self.pull + self.pull_by_divergence * gone)
        _move(self._teacher_affine, self._student_affine, self.nu * (1 - gone) ** self.slowing)

    def _anchor_logits(self, x: Tensor) -> Tensor:
        """Of the source's γ and β with the teacher's statistics."""
        teacher = [parameter.detach() for parameter in self._teacher_affine]
        own = [parameter.clone() for parameter in teacher]
        torch._foreach_copy_(teacher, self._source_affine)
        logits = self._teacher_logits(x)
        torch._foreach_copy_(teacher, own)
        return logits


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """The mean Jensen-Shannon divergence of two predictions, in [0, 1], of no dimension.

    Args:
        p: Probabilities, (N, C).
        q: Probabilities, (N, C).

    Example:
        >>> one = torch.tensor([[1.0, 0.0]])
        >>> float(divergence(one, one)), float(divergence(one, one.flip(1)))
        (0.0, 1.0)
    """
    middle = (p + q) / 2
    shared = torch.special.entr(middle).sum(dim=1)
    apart = (torch.special.entr(p) + torch.special.entr(q)).sum(dim=1) / 2
    mean: Tensor = (shared - apart).mean() / math.log(2)
    return mean.clamp(0, 1)


def _move(tensors: Sequence[Tensor], towards: Sequence[Tensor], share: Tensor) -> None:
    """θ ← θ + share · (θ' − θ) for all pairs at once, with a share that is on the device."""
    moved = [tensor.detach() for tensor in tensors]
    way = torch._foreach_sub([tensor.detach() for tensor in towards], moved)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(moved, way)
