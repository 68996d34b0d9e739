"""Which weights a network has, in a few letters."""

import hashlib

import torch
from torch import Tensor, nn


def checksum(model: nn.Module, dtype: torch.dtype | None = None) -> str:
    """The beginning of a SHA-256 over names and values of all parameters and buffers.

    Args:
        model: The network.
        dtype: If given, the checksum that it would have after ``model.to(dtype)``.

    Example:
        >>> checksum(nn.ReLU())
        'e3b0c44298fc1c14'
        >>> layer = nn.Linear(2, 2)
        >>> checksum(layer, torch.float64) == checksum(layer.double())
        True
    """
    digest = hashlib.sha256()
    for name, x in model.state_dict().items():
        digest.update(name.encode())
        if not isinstance(x, Tensor):  # what layers keep besides, in a form of their own
            continue
        if dtype is not None and x.is_floating_point():
            x = x.to(dtype)
        digest.update(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
