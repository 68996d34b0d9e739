"""RoTTA the obvious way: the paper's equations line by line, one sample at a time.

What `rotta bench` compares `rotta.RoTTA` with, and what the tests check its predictions and its
bank against. Nothing here is meant to be fast. The strong view alone is the package's own.
"""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rotta.nn.augment import drawn_strong_views


class PlainRobustBatchNorm(nn.Module):
    """Eqs. 3 to 5, elementwise; autograd finds the backward pass by itself."""

    def __init__(self, bn: nn.BatchNorm2d, alpha: float) -> None:
        super().__init__()
        assert bn.running_mean is not None
        assert bn.running_var is not None
        self.mean, self.var = bn.running_mean.clone(), bn.running_var.clone()
        self.weight = nn.Parameter(bn.weight.detach().clone())
        self.bias = nn.Parameter(bn.bias.detach().clone())
        self.alpha, self.eps = alpha, bn.eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, H, W); in training mode the batch first moves the statistics."""
        mean, var = self.mean, self.var
        if self.training:
            batch_mean = x.mean(dim=(0, 2, 3))  # Eq. 1
            batch_var = x.var(dim=(0, 2, 3), correction=0)  # Eq. 2
            mean = (1 - self.alpha) * mean + self.alpha * batch_mean  # Eq. 4
            var = (1 - self.alpha) * var + self.alpha * batch_var  # Eq. 5
            self.mean, self.var = mean.detach(), var.detach()
        normalised = (x - _wide(mean)) / torch.sqrt(_wide(var) + self.eps)
        return _wide(self.weight) * normalised + _wide(self.bias)  # Eq. 3


@dataclass(eq=False)
class Sample:
    """What the bank knows of one image."""

    image: Tensor
    uncertainty: float
    place: int
    """Whoever replaces a sample takes its place: the order in which the bank is trained on."""
    age: int = 0


class PlainBank:
    """CSTU, Algorithm 1: a list of samples per predicted class.

    Args:
        capacity: N.
        num_classes: C.
    """

    def __init__(self, capacity: int, num_classes: int) -> None:
        self.capacity = capacity
        self.num_classes = num_classes
        self.of_class: list[list[Sample]] = [[] for _ in range(num_classes)]

    def __len__(self) -> int:
        return sum(len(samples) for samples in self.of_class)

    def samples(self) -> list[Sample]:
        """All that it holds, by place."""
        everyone = [sample for samples in self.of_class for sample in samples]
        return sorted(everyone, key=lambda sample: sample.place)

    def insert(self, x: Tensor, label: Tensor, uncertainty: Tensor) -> None:
        """Present images, (B, 3, H, W), with predicted classes and entropies, (B,) both."""
        for i in range(len(x)):
            self._present(x[i], int(label[i]), float(uncertainty[i]))
            for samples in self.of_class:
                for sample in samples:
                    sample.age += 1

    def _present(self, image: Tensor, label: int, uncertainty: float) -> None:
        occupation = [len(samples) for samples in self.of_class]
        if occupation[label] >= self.capacity / self.num_classes:
            searched = [label]
        elif len(self) < self.capacity:
            self.of_class[label].append(Sample(image, uncertainty, place=len(self)))
            return
        else:
            largest = max(occupation)
            searched = [c for c in range(self.num_classes) if occupation[c] == largest]
        candidates = [(c, sample) for c in searched for sample in self.of_class[c]]
        highest = max(self._score(sample.age, sample.uncertainty) for _, sample in candidates)
        if self._score(0, uncertainty) < highest:
            # of several with that score, the last
            class_of_worst, worst = [
                (c, sample)
                for c, sample in candidates
                if self._score(sample.age, sample.uncertainty) == highest
            ][-1]
            self.of_class[class_of_worst].remove(worst)
            self.of_class[label].append(Sample(image, uncertainty, place=worst.place))

    def _score(self, age: int, uncertainty: float) -> float:
        """H of Eq. 6, with λ_t = λ_u = 1."""
        return 1 / (1 + math.exp(-age / self.capacity)) + uncertainty / math.log(self.num_classes)


class PlainRoTTA:
    """A teacher that predicts, a student that learns, a bank between them.

    Args:
        net: A classifier with BatchNorm layers that have γ and β; it is not changed.
        num_classes: C, two or more.
        capacity: N, places in the bank.
        update_every: Samples between updates.
        alpha: α of Eqs. 4 and 5.
        nu: ν of Eq. 8.
        lr: Learning rate of Adam.
        seed: Of the strong views.
    """

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        capacity: int = 64,
        update_every: int = 64,
        alpha: float = 0.05,
        nu: float = 0.001,
        lr: float = 1e-3,
        seed: int = 0,
    ) -> None:
        self.student = copy.deepcopy(net).requires_grad_(False)
        _make_robust(self.student, alpha)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.optimiser = torch.optim.Adam(_gammas_and_betas(self.student), lr=lr)
        self.bank = PlainBank(capacity, num_classes)
        self.generator = torch.Generator().manual_seed(seed)
        self.update_every = update_every
        self.nu = nu
        self.seen = 0

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """The teacher's logits, (B, num_classes)."""
        logits: Tensor = self.teacher.eval()(x)
        return logits

    def __call__(self, x: Tensor) -> Tensor:
        """Predict; present the samples to the bank one by one; update when it is time."""
        logits = self.predict(x)
        p = logits.softmax(dim=1)
        entropy = -(p * torch.log(p + 1e-6)).sum(dim=1)
        for i in range(len(x)):
            self.bank.insert(x[i : i + 1], p[i : i + 1].argmax(dim=1), entropy[i : i + 1])
            self.seen += 1
            if self.seen % self.update_every == 0:
                self.update()
        return logits

    def update(self) -> None:
        """Eqs. 7 to 11 on what the bank holds."""
        samples = self.bank.samples()
        weak = torch.stack([sample.image for sample in samples])
        (strong,) = drawn_strong_views(weak, self.generator)
        with torch.no_grad():
            target = self.teacher.train()(weak).softmax(dim=1)
        log_p = self.student.train()(strong).log_softmax(dim=1)
        decay = [math.exp(-sample.age / self.bank.capacity) for sample in samples]
        timeliness = weak.new_tensor([d / (1 + d) for d in decay])  # Eq. 9
        cross_entropy = -(target * log_p).sum(dim=1)  # Eq. 10, but for its constant 1/C
        loss = (timeliness * cross_entropy).mean()  # Eqs. 7 and 11
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        pairs = zip(_gammas_and_betas(self.teacher), _gammas_and_betas(self.student), strict=True)
        with torch.no_grad():
            for of_teacher, of_student in pairs:
                of_teacher.copy_((1 - self.nu) * of_teacher + self.nu * of_student)  # Eq. 8


def _make_robust(net: nn.Module, alpha: float) -> None:
    for name, child in net.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(net, name, PlainRobustBatchNorm(child, alpha))
        else:
            _make_robust(child, alpha)


def _gammas_and_betas(net: nn.Module) -> list[nn.Parameter]:
    layers = [module for module in net.modules() if isinstance(module, PlainRobustBatchNorm)]
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]


def _wide(per_channel: Tensor) -> Tensor:
    return per_channel.view(1, -1, 1, 1)
