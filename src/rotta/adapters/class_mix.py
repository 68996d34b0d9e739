"""Which classes arrive just now, and what that says about each sample.

Where samples are correlated, the last ones tell much about the next: a camera that saw ten cars
will hardly see a cat. A classifier, asked about one image at a time, knows nothing of it. Here the
mix of classes is estimated from the last predictions, and predictions are corrected for it. Whether
samples are correlated is not set but found, from the same predictions.

With p_nc for the network's probability of class c for sample n, μ_c for its usual mean (over some
thousand samples before, so that a network which always says the same is not taken for a stream
of one class), and A for how far the mix of the moment may be from the usual,

    π ~ Dirichlet(A·μ),    y_n ~ π,    p(x_n | y_n = c) ∝ p_nc / μ_c

For each A of a few, q_nc, the probability of class c for sample n in view of the others of the last
N samples, is found by iterating (collapsed variational Bayes of zeroth order)

    q_nc ∝ p_nc / μ_c · (A·μ_c + N_c − q_nc),      N_c = Σ_n q_nc

and the evidence for this A against that of independent samples (A = ∞, q = p, F = 0) is

    F(A) = Σ_nc q_nc · (log p_nc/μ_c − log q_nc)
           + log Γ(A)/Γ(A + N) + Σ_c log Γ(A·μ_c + N_c)/Γ(A·μ_c)

The answer is the mean of all q, that of A = ∞ among them, weighted with exp F. Independent samples
are taken for granted until there is evidence: F(A) counts less DOUBT.
"""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from rotta.nn.cuda_graphs import CudaGraphs

SPREADS = (1.0, 10.0)
"""A: a class or two at a time, or some more."""
DOUBT = 4.0
"""In nats: samples must be so much more probable if they are correlated (55 times)."""

_ROUNDS = 5  # with ten, errors are the same to 0.05 points
_IMPOSSIBLE = -30.0  # log p: no class is less probable, or one sample could outweigh all others
_EVEN = 1e-3  # share of an even mix in the usual one, so that no class is unusual beyond measure


class ClassMix(nn.Module):
    """Correct predictions for the classes that arrive just now.

    Args:
        num_classes: C.
        window: N, the samples that it looks at: the last ones, those asked about among them.
        memory: Samples after which most of what was usual is forgotten.

    Example:
        >>> mix = ClassMix(num_classes=3)
        >>> unsure = torch.tensor([[1.1, 1.0, -9.0]])
        >>> mix.remember(torch.tensor([[0.0, 9.0, 0.0]]).expand(20, 3))
        >>> int(unsure.argmax()), int(mix(unsure).argmax())
        (0, 1)
    """

    recent: Tensor
    known: Tensor
    usual: Tensor
    spreads: Tensor

    def __init__(self, num_classes: int, window: int = 32, memory: int = 1024) -> None:
        super().__init__()
        self.window = window
        self.memory = memory
        recent, known = torch.zeros(window, num_classes), torch.zeros(window)
        usual = torch.full((num_classes,), 1 / num_classes)
        self.register_buffer("recent", recent.float())
        self.register_buffer("known", known.float())  # 1 where there has been a sample
        self.register_buffer("usual", usual.float())
        # made once: a GPU would have to wait for it
        self.register_buffer("spreads", torch.tensor(SPREADS), persistent=False)
        self._graphs = CudaGraphs()  # or a GPU would wait for a hundred launches

    def forward(self, logits: Tensor) -> Tensor:
        """Logits, (B, C), in view of each other and of what is remembered; nothing changes."""
        return self._graphs.run(self._corrected, logits)

    def remember(self, logits: Tensor) -> None:
        """Take samples into account from now on: their logits, (B, C)."""
        self._graphs.run(self._remembered, logits)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """PyTorch's hook for :meth:`to` and its like."""
        self._graphs.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _corrected(self, logits: Tensor) -> Tensor:
        log_p, known = self._with_recent(logits)
        usual = self.usual.to(log_p)
        usual = (usual + _EVEN / len(usual)) / (1 + _EVEN)
        starts = range(0, len(logits), self.window)
        stops = [min(start + self.window, len(logits)) for start in starts]
        windows = torch.stack([log_p[stop : stop + self.window] for stop in stops])
        counts = torch.stack([known[stop : stop + self.window] for stop in stops])
        q = in_view_of_others(windows, counts, usual, self.spreads.to(log_p))
        parts = [
            window[start - stop :] for window, start, stop in zip(q, starts, stops, strict=True)
        ]
        answer = torch.cat(parts).log().to(logits.dtype)
        # a network that has gone astray must be seen to have
        return answer.where(logits.isfinite().all(dim=1, keepdim=True), torch.nan)

    def _remembered(self, logits: Tensor) -> None:
        log_p, known = self._with_recent(logits)
        self.recent.copy_(log_p[-self.window :])
        self.known.copy_(known[-self.window :])
        new, count = log_p[self.window :].exp(), known[self.window :]
        mean = count @ new / count.sum().clamp(min=1)
        self.usual.lerp_(mean.to(self.usual), 1 - (-count.sum() / self.memory).exp().to(self.usual))

    def _with_recent(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """log p of what is remembered and of these, (window + B, C), and which count, (window + B).

        Rows that are not finite do not.
        """
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        finite = logits.isfinite().all(dim=1)
        log_p = precise.where(finite[:, None], 0.0).log_softmax(dim=1).clamp(min=_IMPOSSIBLE)
        known = torch.cat([self.known.to(log_p), finite.to(log_p)])
        return torch.cat([self.recent.to(log_p), log_p]), known


def in_view_of_others(log_p: Tensor, known: Tensor, usual: Tensor, spreads: Tensor) -> Tensor:
    """The probabilities of each sample's classes once the others are known, (…, N, C).

    Args:
        log_p: Of each for itself, (…, N, C); others are those with the same leading indices.
        known: 1 for samples that count, 0 for others, (…, N).
        usual: The mix of classes that the network usually predicts, (C,), above 0.
        spreads: A, how far the mix of the moment may be from the usual, (A,).

    Example:
        >>> p = torch.tensor([[0.5, 0.5], *[[0.99, 0.01]] * 19])
        >>> even = torch.tensor([0.5, 0.5])
        >>> q = in_view_of_others(p.log(), torch.ones(20), even, torch.tensor(SPREADS))
        >>> [round(value, 2) for value in q[0].tolist()]
        [0.97, 0.03]
    """
    p, counts = log_p.exp(), known[..., None]
    spread = spreads.view(-1, *[1] * known.ndim)  # (A, …, 1)
    before = spread[..., None] * usual  # A·μ, (A, …, 1, C)
    log_ratio = log_p - usual.log()
    q = p.expand(len(spreads), *p.shape)
    for _ in range(_ROUNDS):
        counted = counts * q
        others = counted.sum(dim=-2, keepdim=True) - counted
        q = (log_ratio + (before + others).log()).softmax(dim=-1)
    after = before + (counts * q).sum(dim=-2, keepdim=True)
    gained = (counts * (q * log_ratio + torch.special.entr(q))).sum(dim=(-2, -1))
    gained += (torch.lgamma(after) - torch.lgamma(before)).sum(dim=(-2, -1))
    spread = spread.squeeze(-1)
    evidence = gained + torch.lgamma(spread) - torch.lgamma(spread + known.sum(dim=-1)) - DOUBT
    weight = torch.cat([evidence, torch.zeros_like(evidence[:1])]).softmax(dim=0)
    return (weight[..., None, None] * torch.cat([q, p[None]])).sum(dim=0)
