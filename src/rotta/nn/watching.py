"""Whether somebody follows PyTorch's operations one by one, and would miss what is done besides."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

_PLAIN = (Tensor, nn.Parameter)


def is_watched() -> bool:
    """Whether compilers, recorders, transforms or derivatives forwards are at work.

    To them, what reads numbers or memory directly does not exist, or is an error.

    Example:
        >>> is_watched(), torch.func.vmap(lambda x: x + is_watched())(torch.zeros(2))
        (False, tensor([1., 1.]))
    """
    return bool(
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state()
        or torch._C._len_torch_dispatch_stack()
        or forward_ad._current_level >= 0
    )


def are_plain(*tensors: Tensor) -> bool:
    """Whether they are just their numbers: other kinds may have none, or mean more than they hold.

    Example:
        >>> are_plain(torch.zeros(2), nn.Parameter(torch.zeros(2)))
        True
    """
    return all(type(each) in _PLAIN for each in tensors)
