"""A few numbers on their way from the host to the device."""

import torch
from torch import Tensor


def sent(values: Tensor, device: torch.device) -> Tensor:
    """A copy on a device, in a transfer that nobody waits for; on a CPU the values themselves.

    Args:
        values: On the host; small.
        device: Where to.

    Example:
        >>> sent(torch.tensor([1, 2]), torch.device("cpu")).tolist()
        [1, 2]
    """
    if device.type == "cuda":
        values = values.pin_memory()
    return values.to(device, non_blocking=True)
