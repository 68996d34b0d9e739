"""RoTTA: Robust Test-Time Adaptation in Dynamic Scenarios (Yuan, Xie and Li, CVPR 2023)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self, Unpack

import torch
from torch import Tensor, nn

from rotta.adapters.adam import adam, descend
from rotta.adapters.base import Adapter
from rotta.adapters.cadence import cadence
from rotta.adapters.checks import check_at_least_one, check_between
from rotta.adapters.common import CommonOptions
from rotta.adapters.logits import entropy, exact_entropy
from rotta.adapters.precision import (
    FULL,
    PRECISIONS,
    check_precision,
    computing_in,
    reference_precision,
)
from rotta.adapters.unlearnt import FOLLOW_EVERY, followed, share_of_many, steps_to_follow
from rotta.memory.cstu import CSTU, timeliness
from rotta.memory.recent import Recent
from rotta.nn.augment import drawn_strong_views
from rotta.nn.batch_stats import BatchStatNorm
from rotta.nn.cuda_graphs import CudaGraphs, Result
from rotta.nn.frozen_conv import Made, freeze_convolutions, unfreeze_precision
from rotta.nn.fusion import fuse_relus
from rotta.nn.rbn import RobustBatchNorm
from rotta.nn.surgery import (
    OTHER_NORMS,
    affine_parameters,
    copy_sharing_weights,
    has_batch_norm,
    layers_of,
    layers_training,
    move_towards,
    replace_batch_norms,
    train_only,
)

TRAINED_LAYERS = (RobustBatchNorm, BatchStatNorm, *OTHER_NORMS)
LOSS_SCALES = {"float16": 2.0**12}
"""By which a loss is multiplied where its gradients would fall below the smallest number."""


class RoTTA(Adapter):
    """Predict with a teacher; learn from a balanced bank of recent, certain samples.

    Predictions are the teacher's, in evaluation mode, before anything that this batch causes. Each
    sample then enters the bank (CSTU); after every ``update_every`` samples seen, wherever in a
    batch that falls, the bank's weak views (the stored images) move the teacher's statistics, its
    strong views those of the student (RBN), and the student's γ and β learn the teacher's
    predictions, old samples counting less; the teacher follows by ν.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        num_classes: C, the number of its outputs.
        capacity: N, places in the bank.
        update_every: Samples between updates.
        alpha: α, share of the bank in the new statistics.
        nu: ν, how fast the teacher follows the student.
        lambda_t: λ_t, weight of timeliness in the bank's score.
        lambda_u: λ_u, weight of uncertainty in the bank's score.
        lr: Learning rate of Adam.
        robust_norm: False: statistics of the current batch instead of RBN (ablation). Needed for
            networks without BatchNorm, whose LayerNorm or GroupNorm γ and β are then trained.
        balanced_bank: False: the last N samples instead of CSTU (ablation).
        robust_training: False: entropy minimisation without a teacher (ablation).
        graphs: Record the prediction and the update as CUDA graphs once, and replay them as a
            whole, so that launching takes no time; by default on CUDA. What the network's Python
            code does besides computing (printing, counting) is not repeated then: False for a
            network where that matters.
        precision: In which the network computes: ``"float32"``, or on CUDA ``"float16"`` or
            ``"bfloat16"``. Statistics, γ, β and losses stay in float32. What a guard compares
            with is in bfloat16 on CUDA, for networks of layers that are known to bear it.
        seed: Of the strong views.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has nothing that can be adapted; the message says what to do.

    Example:
        >>> layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)
        >>> net = nn.Sequential(*layers)
        >>> model = RoTTA(net, num_classes=5)
        >>> model(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 5])
    """

    STATE = ("optimiser", "generator", "samples_seen", "updates")
    AUGMENTS = True
    ANCHORED: ClassVar[bool] = False
    """Whether every update follows the unlearnt network, guard or not."""
    FREE = ("seed", "graphs", "precision")
    PASSES = 4

    bank: CSTU | Recent

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        capacity: int = 64,
        update_every: int = 64,
        alpha: float = 0.05,
        nu: float = 0.001,
        lambda_t: float = 1.0,
        lambda_u: float = 1.0,
        lr: float = 1e-3,
        robust_norm: bool = True,
        balanced_bank: bool = True,
        robust_training: bool = True,
        graphs: bool | None = None,
        precision: str = FULL,
        seed: int = 0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(net, num_classes, **common)
        check_at_least_one(capacity=capacity, update_every=update_every)
        check_between(0, 1, alpha=alpha, nu=nu)
        check_between(0, math.inf, lambda_t=lambda_t, lambda_u=lambda_u, lr=lr)
        _check_adaptable(net, robust_norm)
        _check_graphs(net, graphs)
        check_precision(net, precision)
        self.capacity = capacity
        self.update_every = update_every
        self.nu = nu
        self.balanced_bank = balanced_bank
        self.robust_training = robust_training
        self.precision = precision
        if graphs is None:
            graphs = all(p.is_cuda for p in net.parameters())
        self.student = _prepare(net, alpha, robust_norm)
        self.teacher = _prepare(net, alpha, robust_norm) if robust_training else self.student
        self.unlearnt: nn.Module | None = None
        if robust_norm and (self.ANCHORED or self._guard is not None):
            self.unlearnt = _prepare(net, alpha, robust_norm)
        self._reference_precision = precision
        if self.unlearnt is not None and not self.ANCHORED:
            self._reference_precision = reference_precision(self.unlearnt, precision)
        if graphs or precision != FULL:  # else launching them would cost more than they save
            made: Made = {}
            freeze_convolutions(self.student, PRECISIONS.get(precision), made)
            freeze_convolutions(self.teacher, PRECISIONS.get(precision), made)
            if self.unlearnt is not None and self._reference_precision == precision:
                freeze_convolutions(self.unlearnt, PRECISIONS.get(precision), made)
            elif self.unlearnt is not None:
                dtype = PRECISIONS[self._reference_precision]
                freeze_convolutions(self.unlearnt, dtype, {}, gradients=False)
        self.bank = (
            CSTU(capacity, num_classes, lambda_t=lambda_t, lambda_u=lambda_u)
            if balanced_bank
            else Recent(capacity)
        )
        trained = affine_parameters(self.student, TRAINED_LAYERS)
        train_only(self.student, trained)
        self._student_affine = trained
        self._teacher_affine = affine_parameters(self.teacher, TRAINED_LAYERS)
        self._robust_norms = layers_of(self.student, RobustBatchNorm)
        self._robust_norms += layers_of(self.teacher, RobustBatchNorm)
        self.optimiser = adam(trained, lr)
        self.generator = torch.Generator().manual_seed(seed)
        self.samples_seen = 0
        self.updates = 0
        self.bank.to(trained[0].device)
        self._graphs = CudaGraphs() if graphs else None

    def infer(self, x: Tensor) -> Tensor:
        """The teacher's logits, (B, num_classes)."""
        return self.run_fast(self._teacher_logits, x)

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), of γ and β of the start with statistics of their own."""
        if self.unlearnt is None:
            return super().infer_unlearnt(x)
        return self.run_fast(self._unlearnt_logits, x)

    def learn(self, x: Tensor, logits: Tensor) -> None:
        """Fill the bank; update at every ``update_every``-th sample."""
        label, uncertainty = logits.argmax(dim=1), entropy(logits)
        for part, update_is_due in cadence(self.samples_seen, len(x), self.update_every):
            self.bank.insert(x[part], label[part], uncertainty[part])
            self.samples_seen += part.stop - part.start
            if update_is_due:
                self._update()

    def _update(self) -> None:
        """One step of robust training on the bank (Eqs. 7 to 11)."""
        size = self.bank.size()
        weak, age = self.bank.images[:size], self.bank.age[:size]
        if not self.balanced_bank:
            age = torch.zeros_like(age)
        strong = weak
        if self.robust_training:
            # one draw of parameters for the whole bank, as in the published implementation
            (strong,) = drawn_strong_views(weak, self.generator)
        weight = timeliness(age.to(weak.dtype), self.capacity)
        if not self.optimiser.state:  # its first step makes tensors that no recording knows of
            self.forget_recorded()
        self.run_fast(self._descend, weak, strong, weight)
        if self._guard is not None and self.unlearnt is not None and not self.ANCHORED:
            steps = steps_to_follow(self.updates, doubt=self._guard.in_doubt)
            if steps:
                follow = self._follow if steps == 1 else self._catch_up
                self.run_fast(follow, followed(weak, self.updates, steps))
        self.updates += 1

    def _descend(self, weak: Tensor, strong: Tensor, weight: Tensor) -> None:
        """Statistics, gradient, step, and the teacher's step (Eq. 11)."""
        with layers_training(self._robust_norms):
            with torch.enable_grad():
                loss = self._loss(weak, strong, weight)
            descend(loss, self.optimiser, LOSS_SCALES.get(self.precision))
        if self.robust_training:
            move_towards(self._teacher_affine, self._student_affine, self.nu)

    def _loss(self, weak: Tensor, strong: Tensor, weight: Tensor) -> Tensor:
        if not self.robust_training:
            return exact_entropy(self._logits(self.student, weak)).mean()
        with torch.no_grad():
            target = self._teacher_logits(weak).softmax(dim=1)
        return self._distillation(target, strong, weight)

    def _distillation(self, target: Tensor, strong: Tensor, weight: Tensor) -> Tensor:
        """Cross-entropy to the teacher's predictions, (N, C), old samples counting less."""
        log_p = self._logits(self.student, strong).log_softmax(dim=1)
        # Eq. 9 without its constant 1/C, which Adam would cancel
        cross_entropy = -(target * log_p).sum(dim=1)
        return (weight * cross_entropy).mean()

    def _follow(self, weak: Tensor) -> Tensor:
        """Move the unlearnt network's statistics towards the bank's; its logits, (N, C)."""
        assert self.unlearnt is not None
        with layers_training(layers_of(self.unlearnt, RobustBatchNorm)):
            return self._unlearnt_logits(weak)

    def _catch_up(self, weak: Tensor) -> Tensor:
        """The same, as far as so many updates would have moved them."""
        assert self.unlearnt is not None
        layers = layers_of(self.unlearnt, RobustBatchNorm)
        usual = layers[0].alpha
        try:
            for layer in layers:
                layer.alpha = share_of_many(usual, FOLLOW_EVERY)
            return self._follow(weak)
        finally:
            for layer in layers:
                layer.alpha = usual

    def _teacher_logits(self, x: Tensor) -> Tensor:
        return self._logits(self.teacher, x)

    def _unlearnt_logits(self, x: Tensor) -> Tensor:
        assert self.unlearnt is not None
        return self._logits(self.unlearnt, x, self._reference_precision)

    def _logits(self, net: nn.Module, x: Tensor, precision: str | None = None) -> Tensor:
        """Logits in the images' own precision, computed in the chosen one."""
        with computing_in(precision or self.precision, x.device):
            return self.logits(net, x).to(x.dtype)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """PyTorch's hook for :meth:`load_state_dict`."""
        super().set_extra_state(state)
        self.forget_recorded()  # the optimiser has new tensors

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """PyTorch's hook for :meth:`to` and its like."""
        self.forget_recorded()
        super()._apply(fn, recurse)
        if self.unlearnt is not None and self._reference_precision != self.precision:
            # where it is now, or in its new dtype, half the precision may not do
            self._reference_precision = self.precision
            unfreeze_precision(self.unlearnt)
        return self

    def run_fast(self, function: Callable[..., Result], *inputs: Tensor) -> Result:
        """Call a function of tensors; as a CUDA graph, if graphs are wanted."""
        return function(*inputs) if self._graphs is None else self._graphs.run(function, *inputs)

    def forget_recorded(self) -> None:
        """Record graphs anew: a tensor or a constant in them is another now."""
        if self._graphs is not None:
            self._graphs.forget()


def _prepare(net: nn.Module, alpha: float, robust_norm: bool) -> nn.Module:
    """A copy with its own normalisation layers, frozen, in evaluation mode."""
    make = (
        partial(RobustBatchNorm.from_batchnorm, alpha=alpha)
        if robust_norm
        else BatchStatNorm.from_batchnorm
    )
    copy = replace_batch_norms(copy_sharing_weights(net), make)
    return fuse_relus(copy.requires_grad_(False).eval())


def _check_graphs(net: nn.Module, graphs: bool | None) -> None:
    if graphs and not all(p.is_cuda for p in net.parameters()):
        raise ValueError(
            "graphs=True records CUDA graphs: move the network to a CUDA device before you wrap "
            "it, or leave the option out"
        )


def _check_adaptable(net: nn.Module, robust_norm: bool) -> None:
    if has_batch_norm(net):
        return
    if not affine_parameters(net, OTHER_NORMS):
        raise ValueError(
            "the network has no normalisation layer with γ and β, so RoTTA has nothing to adapt: "
            "use method='lame', which adapts the predictions alone, or 'cotta', which trains all"
        )
    if robust_norm:
        raise ValueError(
            "the network has no BatchNorm layer, so there are no statistics to make robust: pass "
            "robust_norm=False to train γ and β of its LayerNorm or GroupNorm layers"
        )
