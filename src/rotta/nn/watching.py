"""Whether somebody follows PyTorch's operations one by one, and would miss what is done besides."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

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
        or torch._ops._len_torch_dispatch_stack_pre_dispatch()  # type: ignore[no-untyped-call]
        or (torch._C._len_torch_function_stack() and _functions_are_followed())
        or forward_ad._current_level >= 0
    )


def _functions_are_followed() -> bool:
    """By more than ``torch.device`` as a context, or a default device, which place new tensors."""
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return any(type(mode) is not DeviceContext for mode in modes)


def are_plain(*tensors: Tensor) -> bool:
    """Whether they mean what their memory holds: other kinds may have none, or stand for more.

    Example:
        >>> are_plain(torch.zeros(2), nn.Parameter(torch.zeros(2)))
        True
    """
    # every layer asks, and a generator would take several times as long
    for each in tensors:  # noqa: SIM110
        if type(each) not in _PLAIN or each.is_neg():
            return False
    return True
