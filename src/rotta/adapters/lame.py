"""LAME: parameter-free online test-time adaptation (Boudiaf et al., CVPR 2022)."""

import math
from typing import Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rotta.adapters.base import Adapter
from rotta.adapters.checks import check_at_least_one, check_between
from rotta.adapters.common import CommonOptions
from rotta.adapters.unchanged import SharedPass, UnchangedPass
from rotta.nn.surgery import copy_sharing_weights
from rotta.nn.to_host import ToHost

_AT_ONCE = 10  # iterations that a GPU is given before it is asked whether they were enough


class LAME(Adapter):
    """Correct the predictions of a batch so that neighbours in feature space agree.

    The network stays as it is; every batch is corrected on its own (Laplacian-adjusted
    maximum-likelihood estimation).

    Args:
        net: A classifier that ends in a linear layer, whose input is taken for the features; it
            is not changed.
        num_classes: C, the number of its outputs.
        neighbours: How many nearest neighbours pull at each sample.
        max_steps: Bound on the iterations.
        tolerance: Relative change of the energy at which they stop.
        common: ``bad_input``, ``class_mix``, ``guard`` and ``reset_every``, see
            :class:`~rotta.adapters.base.Adapter`.

    Raises:
        ValueError: The network has no linear layer with ``num_classes`` outputs.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
        >>> LAME(net, num_classes=10)(torch.rand(4, 3, 2, 2)).exp().sum(dim=1).round().tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    KEEPS_NOTHING = True

    unchanged: UnchangedPass | SharedPass

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        neighbours: int = 5,
        max_steps: int = 100,
        tolerance: float = 1e-8,
        **common: Unpack[CommonOptions],
    ) -> None:
        super().__init__(net, num_classes, **common)
        check_at_least_one(neighbours=neighbours, max_steps=max_steps)
        check_between(0, math.inf, tolerance=tolerance)
        self.neighbours = neighbours
        self.max_steps = max_steps
        self.tolerance = tolerance
        self.net = copy_sharing_weights(net).eval()
        self.unchanged = UnchangedPass(self.net, num_classes, features=True)
        if self.unchanged.head is None:
            raise ValueError(
                "LAME takes its features from the linear layer that gives the logits, and this "
                f"network has none with num_classes={num_classes} outputs: correct num_classes, "
                "or end the network in nn.Linear"
            )

    def infer(self, x: Tensor) -> Tensor:
        """log Y, (B, num_classes): the corrected probabilities as logits."""
        seen = self.unchanged(x)
        if seen.features is None:
            raise ValueError(
                "LAME takes its features from the network's last nn.Linear with num_classes "
                "outputs, and this network does not call it: call it as a module"
            )
        p = seen.logits.softmax(dim=1)
        affinity = nearest_neighbours(seen.features.flatten(1), self.neighbours)
        return laplacian_adjusted((p + 1e-10).log(), affinity, self.max_steps, self.tolerance)


def nearest_neighbours(features: Tensor, count: int) -> Tensor:
    """W, (B, B): 1 where column is among row's nearest neighbours, itself excluded.

    Args:
        features: (B, D).
        count: How many; all others where the batch is smaller.
    """
    unit = F.normalize(features, dim=1)
    closeness = (unit @ unit.T).fill_diagonal_(-torch.inf)
    nearest = closeness.topk(min(count, len(features) - 1), dim=1).indices
    return torch.zeros_like(closeness).scatter_(1, nearest, 1.0)


def laplacian_adjusted(
    log_p: Tensor, affinity: Tensor, max_steps: int = 100, tolerance: float = 1e-8
) -> Tensor:
    """Iterate Y = softmax(log p + W·Y) until its energy stands still (Eq. 8 of LAME).

    Args:
        log_p: (B, C).
        affinity: W, (B, B).
        max_steps: Bound on the iterations.
        tolerance: Relative change of the energy at which they stop.

    Returns:
        log Y, (B, C).
    """
    search = _step_by_step if log_p.device.type == "cpu" else _in_advance
    return search(log_p, affinity, max_steps, tolerance).log_softmax(dim=1)


def _step_by_step(log_p: Tensor, affinity: Tensor, max_steps: int, tolerance: float) -> Tensor:
    """log p + W·Y, (B, C), where the energy stands still; each step is looked at."""
    exponent, old = log_p, math.nan
    for _ in range(max_steps):
        exponent = torch.addmm(log_p, affinity, exponent.softmax(dim=1))
        energy = _energy(exponent).item()
        if abs(energy - old) <= tolerance * abs(old):
            break
        old = energy
    return exponent


def _in_advance(log_p: Tensor, affinity: Tensor, max_steps: int, tolerance: float) -> Tensor:
    """The same on a device that is never left without work.

    It is given a few steps at once, finds out itself which of them was the last one, and while it
    does the next few, the host reads whether there had to be any.
    """
    exponent = result = log_p
    energy = log_p.new_full((1,), torch.nan)
    enough: ToHost | None = None
    for start in range(0, max_steps, _AT_ONCE):
        steps = []
        for _ in range(min(_AT_ONCE, max_steps - start)):
            exponent = torch.addmm(log_p, affinity, exponent.softmax(dim=1))
            steps.append(exponent)
        if enough is not None and bool(enough.read()):
            break
        several = torch.stack(steps)
        energies = torch.cat([energy, _energy(several)])
        stands_still = energies.diff().abs() <= tolerance * energies[:-1].abs()
        enough = ToHost(stands_still.any())
        stands_still[-1:].fill_(True)  # the last one it is, if there is no better
        first = stands_still.byte().argmax(dim=0, keepdim=True)
        result = several.index_select(0, first).squeeze(0)
        energy = energies[-1:]
    return result


def _energy(exponent: Tensor) -> Tensor:
    """Σ y·(log y − log p − W·Y) over samples and classes, (…), from log p + W·Y, (…, B, C).

    As y is its softmax, log y differs from it by the same for all classes of a sample.
    """
    return -exponent.logsumexp(dim=-1).sum(dim=-1)
