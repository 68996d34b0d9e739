"""What can be seen without labels, as pure functions; nothing here waits for the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

SIGNALS = (
    "lost belief",
    "disagreement",
    "entropy",
    "entropy unlearnt",
    "classes",
    "classes unlearnt",
    "parameter distance",
    "statistics distance",
    "gradient norm",
)
_FRESH_IN_ANSWERS = 0.25  # share of the newest look

Pair = tuple[Sequence[Tensor], Sequence[Tensor]]


def all_signals(
    logits: Tensor,
    reference: Tensor,
    answers: Tensor,
    parameters: Pair,
    statistics: Pair,
    optimiser: torch.optim.Optimizer | None,
) -> Tensor:
    """All that a guard sees at a look, in one tensor: :data:`SIGNALS`, and the new histograms.

    Args:
        logits: Of the method, (B, C).
        reference: Of the same method, had it learnt nothing, (B, C).
        answers: Histograms of what both answered at the looks before, (2, C); 0 before the first.
        parameters: Of the method, now and at the start.
        statistics: As well.
        optimiser: The method's, if it has one.

    Returns:
        (9 + 2·C,).
    """
    new = torch.stack([histogram(logits), histogram(reference)])
    share = 1 - (1 - _FRESH_IN_ANSWERS) * answers.any().to(answers.dtype)
    answers = torch.lerp(answers, new, share)
    nothing = logits.new_zeros(())  # on the device: what is recorded there copies nothing to it
    signals = (
        lost_belief(logits, reference),
        disagreement(logits, reference),
        mean_entropy(logits),
        mean_entropy(reference),
        effective_classes(answers[0]),
        effective_classes(answers[1]),
        distance(*parameters) if parameters[0] else nothing,
        distance(*statistics) if statistics[0] else nothing,
        gradient_norm(optimiser, logits),
    )
    return torch.cat([torch.stack([value.to(logits) for value in signals]), answers.flatten()])


def lost_belief(logits: Tensor, reference: Tensor) -> Tensor:
    """How much of what the reference believes is given up by those who answer otherwise.

    The reference gives each answer a probability. Its own answers have the highest sum of them
    over the batch; the others' answers have less: s = 1 − Σ p(theirs) / Σ p(its own). To decide
    otherwise where the reference is not sure costs little, to overrule it where it is sure costs
    all. Which classes are in the batch, and how many, does not matter: both saw the same images.

    Args:
        logits: Theirs, (B, C).
        reference: Its own, (B, C).

    Returns:
        s, (), in 0 … 1; 0 for the same answers.

    Example:
        >>> sure, torn = [4.0, 0.0], [0.1, 0.0]
        >>> theirs = torch.tensor([[4.0, 0.0], [0.0, 0.1]])
        >>> round(lost_belief(theirs, torch.tensor([sure, torn])).item(), 3)
        0.033
        >>> round(lost_belief(theirs, torch.tensor([torn, sure])).item(), 3)
        0.64
    """
    belief = reference.softmax(dim=1)
    theirs = belief.gather(1, logits.argmax(dim=1, keepdim=True)).sum()
    return 1 - theirs / belief.amax(dim=1).sum()


def disagreement(logits: Tensor, reference: Tensor) -> Tensor:
    """Share of images with another answer, ()."""
    return (logits.argmax(dim=1) != reference.argmax(dim=1)).to(logits.dtype).mean()


def mean_entropy(logits: Tensor) -> Tensor:
    """Of the softmax, in nats, ()."""
    return -(logits.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1).mean()


def histogram(logits: Tensor) -> Tensor:
    """How often each class is the answer, (C,)."""
    return torch.zeros_like(logits[0]).scatter_add_(
        0, logits.argmax(dim=1), torch.ones_like(logits[:, 0])
    )


def effective_classes(count: Tensor) -> Tensor:
    """exp of the entropy of a histogram, (C,): 1 for a single class, C for all alike, ().

    Example:
        >>> round(effective_classes(torch.tensor([5.0, 5.0, 0.0])).item(), 3)
        2.0
    """
    share = count / count.sum().clamp_min(1e-12)
    return torch.exp(-torch.special.xlogy(share, share).sum())


def distance(own: Sequence[Tensor], start: Sequence[Tensor]) -> Tensor:
    """‖θ − θ₀‖ / ‖θ₀‖ over all tensors together, ()."""
    moved = torch._foreach_sub(list(own), list(start))
    return _norm(moved) / _norm(start).clamp_min(1e-12)


def gradient_norm(optimiser: torch.optim.Optimizer | None, like: Tensor) -> Tensor:
    """Norm of Adam's running mean of the gradient, (); 0 before the first step."""
    held = optimiser.state.values() if optimiser is not None else ()
    means = [state["exp_avg"] for state in held if "exp_avg" in state]
    return _norm(means) if means else like.new_zeros(())


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    norms = torch.stack(torch._foreach_norm(list(tensors)))
    return norms.square().sum().sqrt()
