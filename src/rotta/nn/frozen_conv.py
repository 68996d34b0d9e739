"""Convolutions that are never trained: cheaper in memory, and in reduced precision in time."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx


class FrozenConv2d(nn.Module):
    """A convolution whose weight does not change, so that it is brought to its precision once.

    Autocast would do that at every call. Where the gradient with respect to the input is a
    convolution itself (stride 1), it is computed as one, with a weight that is turned once too.
    Then no layer keeps its input for the backward pass, as the framework's do: that is half of the
    memory. In float16 it can take half the time of the framework's own kernel, at 160 channels.

    Args:
        conv: The layer; its parameters are kept as they are, and stay in the state.
        computed: Its weight and bias in the precision to compute in, and the weight of the
            gradient, see :func:`turned_weight`.

    Example:
        >>> conv = nn.Conv2d(3, 4, 3, padding=1).requires_grad_(False)
        >>> FrozenConv2d(conv, computed_weights(conv, torch.double))(torch.rand(2, 3, 8, 8)).dtype
        torch.float64
    """

    computed: Tensor
    computed_bias: Tensor | None
    turned: Tensor | None

    def __init__(self, conv: nn.Conv2d, computed: "Weights") -> None:
        super().__init__()
        self.weight, self.bias = conv.weight, conv.bias
        for name, tensor in zip(("computed", "computed_bias", "turned"), computed, strict=True):
            self.register_buffer(name, tensor, persistent=False)
        self.stride, self.padding = conv.stride, conv.padding
        self.dilation, self.groups = conv.dilation, conv.groups

    def forward(self, input: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, H', W'), in the reduced precision."""
        input, weight = input.to(self.computed.dtype), self.computed
        if self.turned is not None and torch.is_grad_enabled() and input.requires_grad:
            output: Tensor = _Convolve.apply(  # type: ignore[no-untyped-call]
                input, weight, self.computed_bias, self.turned, self.padding, self.groups
            )
            return output
        return F.conv2d(
            input, weight, self.computed_bias, self.stride, self.padding, self.dilation, self.groups
        )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        if prefix + "weight" not in state_dict:  # it is shared with the network, and as before
            return
        fresh = computed_weights(self, self.computed.dtype)
        for own, new in zip((self.computed, self.computed_bias, self.turned), fresh, strict=True):
            if own is not None and new is not None:
                own.copy_(new)


class _Convolve(Function):
    """A convolution with stride 1; its gradient with respect to the input is another."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        turned: Tensor,
        padding: tuple[int, int],
        groups: int,
    ) -> Tensor:
        ctx.save_for_backward(turned)
        ctx.padding, ctx.groups = padding, groups  # type: ignore[attr-defined]
        return F.conv2d(x, weight, bias, padding=padding, groups=groups)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (turned,) = ctx.saved_tensors
        height, width = turned.shape[2:]
        around = height - 1 - ctx.padding[0], width - 1 - ctx.padding[1]
        grad_x = F.conv2d(grad, turned, padding=around, groups=ctx.groups)
        return grad_x, None, None, None, None, None


Weights = tuple[Tensor, Tensor | None, Tensor | None]
Made = dict[tuple[object, ...], Weights]


def computed_weights(
    conv: nn.Conv2d | FrozenConv2d, dtype: torch.dtype, gradients: bool = True
) -> Weights:
    """Weight and bias in another precision, and the weight of the gradient if there will be one."""
    weight = conv.weight.detach().to(dtype)
    bias = None if conv.bias is None else conv.bias.detach().to(dtype)
    return weight, bias, turned_weight(conv, dtype) if gradients else None


def turned_weight(conv: nn.Conv2d | FrozenConv2d, dtype: torch.dtype) -> Tensor | None:
    """The weight with which the gradient of the output gives that of the input, laid out alike.

    None for a layer whose gradient is no plain convolution: strides, gaps, unusual padding.
    """
    padding = conv.padding
    if (
        conv.stride != (1, 1)
        or conv.dilation != (1, 1)
        or isinstance(padding, str)
        or any(p >= k for p, k in zip(padding, conv.weight.shape[2:], strict=True))
    ):
        return None
    outputs, inputs, *kernel = conv.weight.shape
    by_group = conv.weight.detach().view(conv.groups, outputs // conv.groups, inputs, *kernel)
    swapped = by_group.transpose(1, 2).reshape(-1, outputs // conv.groups, *kernel)
    # the network's own layout: another could reach layers that were never run in it
    layout = torch.contiguous_format if conv.weight.is_contiguous() else torch.channels_last
    return swapped.flip(2, 3).to(dtype).contiguous(memory_format=layout)


def freeze_convolutions(
    net: nn.Module, dtype: torch.dtype | None, made: Made, *, gradients: bool = True
) -> nn.Module:
    """Replace the plain convolutions of ``net``, in place.

    Args:
        net: Nothing but normalisation is trained in it.
        dtype: The precision to compute in; each layer's own if None.
        made: Weights in that precision, by what they were made of: networks that share weights
            share these too. Filled on the way.
        gradients: Whether any will flow through it.
    """
    for parent in list(net.modules()):
        for name, conv in parent.named_children():
            if type(conv) is nn.Conv2d and _is_plain(conv):
                key = _identity(conv)
                if key not in made:
                    made[key] = computed_weights(conv, dtype or conv.weight.dtype, gradients)
                setattr(parent, name, FrozenConv2d(conv, made[key]))
    return net


def unfreeze_precision(net: nn.Module) -> None:
    """Let frozen convolutions compute in the precision, and where, their own weights are."""
    for conv in net.modules():
        if isinstance(conv, FrozenConv2d):
            gradients = conv.turned is not None
            fresh = computed_weights(conv, conv.weight.dtype, gradients)
            conv.computed, conv.computed_bias, conv.turned = fresh


def _identity(conv: nn.Conv2d) -> tuple[object, ...]:
    """Equal for layers that compute the same with the same memory."""
    bias = None if conv.bias is None else conv.bias.data_ptr()
    how = conv.stride, conv.padding, conv.dilation, conv.groups
    return conv.weight.data_ptr(), bias, conv.weight.shape, *how


def _is_plain(conv: nn.Conv2d) -> bool:
    listened_to = conv._forward_hooks or conv._forward_pre_hooks
    return conv.padding_mode == "zeros" and not listened_to
