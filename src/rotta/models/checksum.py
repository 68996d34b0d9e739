"""Which weights a network has, in a few letters."""

import hashlib

import torch
from torch import Tensor, nn


def checksum(model: nn.Module) -> str:
    """The beginning of a SHA-256 over names and values of all parameters and buffers.

    Example:
        >>> checksum(nn.ReLU())
        'e3b0c44298fc1c14'
    """
    digest = hashlib.sha256()
    for name, x in model.state_dict().items():
        digest.update(name.encode())
        if not isinstance(x, Tensor):  # what layers keep besides, in a form of their own
            continue
        digest.update(x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
