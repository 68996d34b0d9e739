"""What RoTTA is measured against: its passes without its bookkeeping, and the bare network."""

import torch
from torch import Tensor, nn

from rotta.adapters.cadence import cadence
from rotta.memory.cstu import timeliness
from rotta.nn.surgery import (
    BATCH_NORMS,
    affine_parameters,
    copy_sharing_weights,
    layers_of,
    layers_training,
    train_only,
)


class Bare:
    """The network alone, in evaluation mode; nobody checks its input.

    Args:
        net: A classifier.

    Example:
        >>> Bare(nn.Flatten()).predict(torch.rand(2, 3, 1, 1)).shape
        torch.Size([2, 3])
    """

    def __init__(self, net: nn.Module) -> None:
        self.net = copy_sharing_weights(net).eval()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes)."""
        logits: Tensor = self.net(x)
        return logits

    __call__ = predict


class Floor:
    """The arithmetic that RoTTA cannot do without, with the framework's own BatchNorm.

    To predict is a teacher's pass in evaluation mode. To update is a teacher's pass without
    gradient and a student's with it, both normalising by the batch, a weighted soft cross entropy,
    its gradients for γ and β alone, and a fused Adam step. There is no bank, no augmentation, no
    moving average: every update sees the same images.

    Args:
        net: A classifier with BatchNorm layers; it is not changed.
        memory: What updates see in place of the bank, (N, 3, H, W).

    Example:
        >>> net = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 10))
        >>> floor = Floor(net, memory=torch.rand(64, 3, 2, 2))
        >>> floor(torch.rand(4, 3, 2, 2)).shape
        torch.Size([4, 10])
    """

    def __init__(self, net: nn.Module, memory: Tensor) -> None:
        self.update_every = len(memory)
        self.samples_seen = 0
        self.teacher = copy_sharing_weights(net).requires_grad_(False).eval()
        self.student = copy_sharing_weights(net).eval()
        trained = affine_parameters(self.student, BATCH_NORMS)
        train_only(self.student, trained)
        self.optimiser = torch.optim.Adam(trained, lr=1e-3, fused=True)
        self._norms = layers_of(self.teacher, *BATCH_NORMS) + layers_of(self.student, *BATCH_NORMS)
        self._memory = memory
        age = torch.arange(len(memory), dtype=memory.dtype, device=memory.device)
        self._weight = timeliness(age, len(memory))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Logits, (B, num_classes)."""
        logits: Tensor = self.teacher(x)
        return logits

    def __call__(self, x: Tensor) -> Tensor:
        """Predict; update as often as RoTTA would."""
        logits = self.predict(x)
        for part, update_is_due in cadence(self.samples_seen, len(x), self.update_every):
            self.samples_seen += part.stop - part.start
            if update_is_due:
                self._update()
        return logits

    def _update(self) -> None:
        with layers_training(self._norms):
            with torch.no_grad():
                target = self.teacher(self._memory).softmax(dim=1)
            log_p = self.student(self._memory).log_softmax(dim=1)
        loss = (self._weight * -(target * log_p).sum(dim=1)).mean()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
