"""The order of the samples inside one domain: independent, or correlated by class.

Correlated sampling follows the appendix of the RoTTA paper ("Simulate correlatively sampling").
"""

import math

import numpy as np

from rotta.datasets.base import Indices, Labels

MAX_SLOTS = 100
"""A domain is cut into one slot per class, but never into more than this."""

# From here on all shares equal 1/T to six digits, and numpy's draw must not overflow.
_LARGEST_DELTA = 1e12


def iid(labels: Labels, rng: np.random.Generator) -> Indices:
    """Shuffle a domain: every order of its samples is equally likely.

    Args:
        labels: Class indices, shape (N,); only their number matters here.
        rng: Source of the shuffle.

    Returns:
        A permutation of 0 … N-1, int64.

    Example:
        >>> sorted(iid(np.array([0, 1, 1]), np.random.default_rng(0)).tolist())
        [0, 1, 2]
    """
    return rng.permutation(len(labels)).astype(np.int64)


def dirichlet(labels: Labels, num_classes: int, delta: float, rng: np.random.Generator) -> Indices:
    """Order a domain so that samples of one class come together; more so for small ``delta``.

    The domain is cut into T = min(C, 100) slots. Each class draws from a symmetric Dirichlet(δ)
    the shares of its samples that fall into each slot; its samples, in their order in the domain,
    are split by these shares. Inside a slot the classes come one after the other in random order.

    So even for δ → ∞ the classes form blocks inside a slot: the stream is then uniform at the
    scale of a slot, not of a sample. ``math.inf`` therefore means :func:`iid`, exactly.

    Args:
        labels: Class indices 0 … C-1, shape (N,). Classes without samples are allowed.
        num_classes: C.
        delta: Concentration δ > 0; ``math.inf`` for independent samples.
        rng: Source of the shares and of the order inside the slots.

    Returns:
        A permutation of 0 … N-1, int64.

    Raises:
        ValueError: ``delta`` is not positive, or a label lies outside 0 … C-1.

    Example:
        >>> labels = np.arange(40) % 4
        >>> order = dirichlet(labels, num_classes=4, delta=0.001, rng=np.random.default_rng(0))
        >>> int(np.count_nonzero(np.diff(labels[order])))  # 4 classes in 4 blocks
        3
    """
    check_delta(delta)
    if len(labels) and not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(
            f"labels must lie in 0 … {num_classes - 1}; found {labels.min()} … {labels.max()}"
        )
    if math.isinf(delta):
        return iid(labels, rng)

    num_slots = min(num_classes, MAX_SLOTS)
    concentration = np.full(num_slots, min(delta, _LARGEST_DELTA))
    # Below 0.1 numpy breaks a stick with Beta draws: rows stay valid where Gammas would all be 0.
    share_ct = rng.dirichlet(concentration, size=num_classes)
    turn_tc = rng.permuted(np.tile(np.arange(num_classes), (num_slots, 1)), axis=1)

    slot = _slots(labels, share_ct)
    # The last key sorts first: slot, then the class's turn in it, then the place in the domain.
    order = np.lexsort((np.arange(len(labels)), turn_tc[slot, labels], slot))
    return order.astype(np.int64)


def check_delta(delta: float) -> None:
    """Raise ValueError unless ``delta`` is a Dirichlet concentration: positive, maybe infinite."""
    if not delta > 0:  # written so that NaN fails too
        raise ValueError(
            f"delta must be greater than 0, got {delta}: 0.1 is the paper's, "
            "smaller is more correlated, inf is independent"
        )


def _slots(labels: Labels, share_ct: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Indices:
    """The slot of each sample, (N,): the members of class c, in order, split by share_ct[c]."""
    slot = np.empty(len(labels), dtype=np.int64)
    for label, share_t in enumerate(share_ct):
        members = np.flatnonzero(labels == label)
        # Rounding, not truncation: a sum of shares just below 1 must not lose the last sample
        # of a block to a later slot.
        ends = np.rint(np.cumsum(share_t[:-1]) * len(members))
        slot[members] = np.searchsorted(ends, np.arange(len(members)), side="right")
    return slot
