"""Whether somebody follows PyTorch's operations one by one, and would miss what is done besides."""

import torch
from torch.autograd import forward_ad


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
