"""The network that never learns, normalised as the stream demands: what a guard compares with.

Statistics depend on γ and β of the layers before. Those that were tracked while γ and β learnt do
not fit the γ and β of the start, and the longer it learns, the less: a method that tracks
statistics has to track those of the unlearnt network apart.
"""

from torch import Tensor

FOLLOW_EVERY = 4
"""Updates between two steps of these statistics where only a guard needs them: as long as they keep
step with the method's own, what differs between the two is what was learnt."""
FOLLOWED_AT_ONCE = 8
"""Images of the bank in a step, about: over many steps all of them count alike, and so few cost a
few hundredths of an update."""


def share_of_many(share: float, steps: int) -> float:
    """Of the newest in a running mean that moves once where another moves ``steps`` times.

    Example:
        >>> round(share_of_many(0.05, 2), 4)
        0.0975
    """
    return float(1 - (1 - share) ** steps)


def followed(images: Tensor, update: int) -> Tensor:
    """Those of a bank's images, (N, …), that an update shows to the unlearnt network.

    Args:
        images: All of them.
        update: How many updates there were before; the next time it is others' turn.

    Example:
        >>> import torch
        >>> bank = torch.arange(16)
        >>> [followed(bank, update)[:4].tolist() for update in (0, 4)]
        [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    parts = max(1, len(images) // FOLLOWED_AT_ONCE)
    return images[update // FOLLOW_EVERY % parts :: parts]
