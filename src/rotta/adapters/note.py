"""NOTE: robust continual test-time adaptation against temporal correlation (NeurIPS 2022)."""

import math
from functools import partial
from typing import Unpack

import torch
from torch import Tensor, nn

from rotta.adapters.adam import adam, descend
from rotta.adapters.base import Adapter
from rotta.adapters.cadence import cadence
from rotta.adapters.checks import check_at_least_one, check_between
from rotta.adapters.common import CommonOptions
from rotta.adapters.logits import entropy, exact_entropy
from rotta.adapters.unlearnt import followed, share_of_many, steps_to_follow
from rotta.memory.pbrs import PBRS
from rotta.nn.fusion import fuse_relus
from rotta.nn.iabn import InstanceAwareNorm
from rotta.nn.surgery import (
    affine_parameters,
    copy_sharing_weights,
    has_batch_norm,
    layers_of,
    layers_training,
    replace_batch_norms,
    train_only,
)


class NOTE(Adapter):
    """Instance-aware normalisation, and entropy minimisation on a balanced reservoir.

    Its authors train the source network with its normalisation layers; here they go into a
    finished network, as in the comparisons of RoTTA.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        num_classes: C, the number of its outputs.
        capacity: N, places in the reservoir.
        update_every: Samples between updates.
        k: Standard errors of an instance's statistics that count as chance.
        momentum: How far an update moves the running statistics.
        lr: Learning rate of Adam; 1e-4 is the authors', and 1e-3 does much worse here.
        seed: Of the reservoir.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has no BatchNorm layer.

    Example:
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 10))
        >>> NOTE(net, num_classes=10)(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    STATE = ("optimiser", "generator", "samples_seen")
    PASSES = 3

    bank: PBRS

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        capacity: int = 64,
        update_every: int = 64,
        k: float = 4.0,
        momentum: float = 0.01,
        lr: float = 1e-4,
        seed: int = 0,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(net, num_classes, **common)
        check_at_least_one(capacity=capacity, update_every=update_every)
        check_between(0, 1, momentum=momentum)
        check_between(0, math.inf, k=k, lr=lr)
        if not has_batch_norm(net):
            raise ValueError(
                "the network has no BatchNorm layer, so NOTE has none to make instance-aware: use "
                "method='lame', which adapts the predictions alone, or 'cotta', which trains all"
            )
        self.update_every = update_every
        self.net = _prepare(net, k, momentum)
        trained = affine_parameters(self.net, (InstanceAwareNorm,))
        train_only(self.net, trained)
        self._norms = layers_of(self.net, InstanceAwareNorm)
        self.unlearnt: nn.Module | None = None
        if self._guard is not None:
            self.unlearnt = _prepare(net, k, momentum)
            self.unlearnt.requires_grad_(False)
        self.optimiser = adam(trained, lr)
        self.generator = torch.Generator().manual_seed(seed)
        self.bank = PBRS(capacity, num_classes, self.generator).to(trained[0].device)
        self.samples_seen = 0

    def infer(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), by the running statistics."""
        return self.logits(self.net, x)

    def infer_unlearnt(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes), of γ and β of the start with statistics of their own."""
        if self.unlearnt is None:
            return super().infer_unlearnt(x)
        return self.logits(self.unlearnt, x)

    def learn(self, x: Tensor, logits: Tensor) -> None:
        """Fill the reservoir, update when it is time."""
        label, uncertainty = logits.argmax(dim=1), entropy(logits)
        for part, update_is_due in cadence(self.samples_seen, len(x), self.update_every):
            self.bank.insert(x[part], label[part], uncertainty[part])
            self.samples_seen += part.stop - part.start
            if update_is_due:
                self._update()

    def _update(self) -> None:
        """One step of entropy minimisation; the reservoir's statistics move the running ones."""
        memory = self.bank.images[: self.bank.size()]
        with torch.enable_grad(), layers_training(self._norms):
            loss = exact_entropy(self.logits(self.net, memory)).mean()
            descend(loss, self.optimiser)
        if self._guard is not None and self.unlearnt is not None:
            updates = self.samples_seen // self.update_every - 1  # before this one
            steps = steps_to_follow(updates, doubt=self._guard.in_doubt)
            if steps:
                self._follow(self.unlearnt, followed(memory, updates, steps), steps)

    def _follow(self, unlearnt: nn.Module, memory: Tensor, steps: int) -> None:
        """Move the unlearnt network's statistics as far as so many updates would have."""
        layers = layers_of(unlearnt, InstanceAwareNorm)
        for layer in layers:
            layer.momentum = share_of_many(self._norms[0].momentum, steps)
        with layers_training(layers):
            self.logits(unlearnt, memory)


def _prepare(net: nn.Module, k: float, momentum: float) -> nn.Module:
    """A copy with its own instance-aware layers, in evaluation mode."""
    make = partial(InstanceAwareNorm.from_batchnorm, k=k, momentum=momentum)
    return fuse_relus(replace_batch_norms(copy_sharing_weights(net), make).eval())
