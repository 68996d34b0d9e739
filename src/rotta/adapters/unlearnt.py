"""The network that never learns, normalised as the stream demands: what a guard compares with.

Statistics depend on γ and β of the layers before. Those that were tracked while γ and β learnt do
not fit the γ and β of the start, and the longer it learns, the less: a method that tracks
statistics has to track those of the unlearnt network apart.
"""

from torch import Tensor

FOLLOW_EVERY = 12
"""Updates that one step of these statistics makes up for, where only a guard needs them. It looks
at every second such step, and finds them where the method's own are; while it is in doubt, and
looks at every batch, they take every step."""
FOLLOWED_AT_ONCE = 20
"""Images of the bank in a step, at least: over many steps all of them count, and so few cost a
few hundredths of an update."""


def steps_to_follow(update: int, *, doubt: bool) -> int:
    """How many steps of the method's own statistics are made up for after an update.

    Args:
        update: How many updates there were before.
        doubt: Whether the guard is in doubt.

    Example:
        >>> [steps_to_follow(update, doubt=False) for update in (0, 10, 11)]
        [0, 0, 12]
        >>> steps_to_follow(0, doubt=True)
        1
    """
    if doubt:
        return 1
    return FOLLOW_EVERY if (update + 1) % FOLLOW_EVERY == 0 else 0


def share_of_many(share: float, steps: int) -> float:
    """Of the newest in a running mean that moves once where another moves ``steps`` times.

    Example:
        >>> round(share_of_many(0.05, 2), 4)
        0.0975
    """
    return float(1 - (1 - share) ** steps)


def followed(images: Tensor, update: int, steps: int) -> Tensor:
    """Those of a bank's images, (N, …), that an update shows to the unlearnt network.

    Args:
        images: All of them.
        update: How many updates there were before; the next time it is others' turn.
        steps: As :func:`steps_to_follow` has it.

    Example:
        >>> import torch
        >>> bank = torch.arange(48)
        >>> [followed(bank, update, 12)[:4].tolist() for update in (11, 23)]
        [[0, 2, 4, 6], [1, 3, 5, 7]]
    """
    parts = max(1, len(images) // FOLLOWED_AT_ONCE)
    as_many = len(images) // parts  # each time: a CUDA graph is for one number of images
    beginnings = len(images) - (as_many - 1) * parts
    return images[update // steps % beginnings :: parts][:as_many]
