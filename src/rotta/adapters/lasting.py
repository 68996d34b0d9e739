"""RoTTA that lasts: for streams that come back to the same places again and again.

The paper's method learns for ever from its own predictions, and over many visits of the same
domains its γ and β drift until it is worse than the network it started from. Its statistics do
not: they forget. So what is learnt is held on a leash, and what is measured is how far it has gone
from the *anchor*: the source's own γ and β, with statistics that follow the bank as the teacher's
do. No source data is needed.

With θ_S, θ_T and θ_0 for γ and β of student, teacher and source, p_A for the anchor's prediction of
the weak view, and everything else as in :mod:`rotta.adapters.rotta`, an update is

    D   = 1/N Σ JS(p_T, p_A) / log 2                      in [0, 1]: how far it has gone
    θ_S ← θ_S − Adam(∂L/∂θ_S)                             as in the paper
    θ_S ← θ_S + min(1, κ · D) · (θ_0 − θ_S)               the leash: the farther, the stronger
    θ_T ← θ_T + ν · (θ_S − θ_T)                           as in the paper

What is answered is corrected for the classes that arrive just now: :mod:`rotta.adapters.class_mix`.
"""

import math
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from rotta.adapters.adam import descend
from rotta.adapters.checks import check_between, check_usable
from rotta.adapters.common import SafetyOptions
from rotta.adapters.precision import FULL
from rotta.adapters.rotta import LOSS_SCALES, TRAINED_LAYERS, RoTTA
from rotta.nn.surgery import affine_parameters, has_batch_norm, layers_training, move_towards


class LastingRoTTA(RoTTA):
    """RoTTA on a leash to its source, for streams that come back to the same places.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        num_classes: C, the number of its outputs.
        leash: κ, how strongly γ and β are pulled back to the source's for what has diverged; with 0
            it learns what RoTTA learns.
        capacity: As for :class:`~rotta.adapters.rotta.RoTTA`, and so are those that follow.
        update_every: Samples between updates.
        alpha: α, share of the bank in the new statistics.
        nu: ν, how fast the teacher follows the student.
        lambda_t: λ_t, weight of timeliness in the bank's score.
        lambda_u: λ_u, weight of uncertainty in the bank's score.
        lr: Learning rate of Adam.
        graphs: Record the prediction and the update as CUDA graphs.
        precision: In which the network computes.
        seed: Of the strong views.
        class_mix: Correct what is answered for the classes that arrive just now.
        common: ``bad_input``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has no BatchNorm layer, or a constant is out of range.

    Example:
        >>> import rotta
        >>> model = LastingRoTTA(rotta.load_source("digits"), num_classes=10)
        >>> model(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    PASSES = 5
    ANCHORED = True

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        leash: float = 30.0,
        capacity: int = 64,
        update_every: int = 64,
        alpha: float = 0.05,
        nu: float = 0.001,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        lr: float = 1e-3,
        graphs: bool | None = None,
        precision: str = FULL,
        seed: int = 0,
        class_mix: bool = True,
        **common: Unpack[SafetyOptions],
    ) -> None:
        _check_anchored(net)
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
            class_mix=class_mix,
            **common,
        )
        check_between(0, math.inf, leash=leash)
        assert self.unlearnt is not None
        self.leash = leash
        self._source_affine = affine_parameters(self.unlearnt, TRAINED_LAYERS)

    def _descend(self, weak: Tensor, strong: Tensor, weight: Tensor) -> None:
        """One update, as the head of this file states it."""
        anchor = self._follow(weak).softmax(dim=1)
        with layers_training(self._robust_norms):
            target = self._teacher_logits(weak).softmax(dim=1)
            with torch.enable_grad():
                loss = self._distillation(target, strong, weight)
            descend(loss, self.optimiser, LOSS_SCALES.get(self.precision))
        share = (self.leash * divergence(target, anchor)).clamp(max=1)
        _move_by(share, self._student_affine, self._source_affine)
        move_towards(self._teacher_affine, self._student_affine, self.nu)


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


def _check_anchored(net: nn.Module) -> None:
    check_usable(net)
    if not has_batch_norm(net):
        raise ValueError(
            "the network has no BatchNorm layer, so there are no statistics to anchor the source's "
            "γ and β in: use method='lame', which adapts the predictions alone, or 'rotta' with "
            "robust_norm=False"
        )


def _move_by(share: Tensor, tensors: Sequence[Tensor], towards: Sequence[Tensor]) -> None:
    """θ ← θ + share · (θ' − θ) for all pairs at once, with a share that is on the device."""
    moved = [tensor.detach() for tensor in tensors]
    way = torch._foreach_sub([tensor.detach() for tensor in towards], moved)
    torch._foreach_mul_(way, share)
    torch._foreach_add_(moved, way)
