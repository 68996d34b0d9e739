"""Convolutions that only predict, on a CPU: weights laid out once, and sums made on the way."""

import operator
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from rotta.nn.rbn import RobustBatchNorm

_ADDS = (operator.add, torch.add, "add")
_ADDS_IN_PLACE = (operator.iadd, "add_")


class PackedConv2d(nn.Module):
    """A convolution in oneDNN, to which the weight is given as it wants it, and what to add.

    The framework would bring the weight into that layout at every call, and add in another pass
    over memory. The weight in that layout is a copy: one that nobody else has, and that does not
    follow if the layer's weight changes later. There is no gradient.

    Args:
        conv: A layer that :func:`is_packable`; its parameters are kept as they are.

    Example:
        >>> conv = nn.Conv2d(3, 4, 3, padding=1).requires_grad_(False)
        >>> x, summand = torch.rand(2, 3, 8, 8), torch.rand(2, 4, 8, 8)
        >>> PackedConv2d(conv)(x, summand).shape
        torch.Size([2, 4, 8, 8])
    """

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert not isinstance(conv.padding, str), "nobody asked whether it is packable"
        self.weight, self.bias = conv.weight, conv.bias
        self._kernel, self._stride, self._padding = conv.kernel_size, conv.stride, conv.padding
        self._groups = conv.groups
        how = list(self._padding), list(self._stride), [1, 1], self._groups
        opaque = self.weight.detach().to_mkldnn()
        self._packed = torch._C._nn.mkldnn_reorder_conv2d_weight(opaque, *how)

    def forward(self, x: Tensor, summand: Tensor | None = None) -> Tensor:
        """Convolve, and add.

        Args:
            x: (B, inputs, H, W).
            summand: (B, outputs, H', W'), if any; overwritten.

        Returns:
            (B, outputs, H', W'), channels innermost; the memory of ``summand`` if that lies so.
        """
        if x.ndim != 4 or x.dtype != self.weight.dtype:
            plain = F.conv2d(
                x, self.weight, self.bias, self._stride, self._padding, groups=self._groups
            )
            return _added(plain, summand)
        x = x.contiguous(memory_format=torch.channels_last)
        how = self._packed, self.bias, self._padding, self._stride, (1, 1), self._groups
        if summand is not None and self._takes(x, summand):
            output: Tensor = torch.ops.mkldnn._convolution_pointwise_.binary(
                summand, x, *how, "add", 1.0, None, [], None
            )
            return output
        return _added(torch.ops.mkldnn._convolution_pointwise(x, *how, "none", [], ""), summand)

    def _takes(self, x: Tensor, summand: Tensor) -> bool:
        """Whether the sum can be made in the summand's memory."""
        axes = zip(x.shape[2:], self._padding, self._kernel, self._stride, strict=True)
        size = [(length + 2 * p - k) // s + 1 for length, p, k, s in axes]
        return (
            summand.shape == (x.shape[0], self.weight.shape[0], *size)
            and summand.dtype == x.dtype
            and summand.is_contiguous(memory_format=torch.channels_last)
        )


def _added(x: Tensor, summand: Tensor | None) -> Tensor:
    return x if summand is None else x + summand


def is_packable(conv: nn.Module) -> bool:
    """Whether a layer can be a :class:`PackedConv2d` here.

    oneDNN has crashed where gaps meet padding as wide as the kernel: neither is accepted.

    Example:
        >>> is_packable(nn.Conv2d(3, 4, 3, padding_mode="reflect"))
        False
    """
    return (
        type(conv) is nn.Conv2d
        and conv.weight.dtype == torch.float32
        and conv.weight.device.type == "cpu"
        and conv.padding_mode == "zeros"
        and not isinstance(conv.padding, str)
        and conv.dilation == (1, 1)
        and all(p < k for p, k in zip(conv.padding, conv.kernel_size, strict=True))
        and not (conv._forward_hooks or conv._forward_pre_hooks)
        and _works()
    )


@cache
def _works() -> bool:
    """Whether this build of PyTorch has what is needed, in the form that is known: try it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    conv = nn.Conv2d(1, 2, 1, bias=False, dtype=torch.float32, device="cpu")
    x = torch.ones(1, 1, 2, 2)
    summand = torch.ones(1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    try:
        with torch.no_grad():
            conv.weight.fill_(2.0)
            packed = PackedConv2d(conv)
            return bool((packed(x) == 2).all() and (packed(x, summand) == 3).all())
    except (AttributeError, TypeError, RuntimeError):  # other names, another form, no such layout
        return False


def usable() -> bool:
    """Whether packed convolutions may compute now: no gradient, one precision, oneDNN not off."""
    return (
        not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
    )


def pack_convolutions(net: nn.Module) -> nn.Module:
    """A second network of the same layers that predicts the same, with packed convolutions.

    Where a convolution's result is added to something that nobody needs afterwards, it is added
    in its memory.

    Args:
        net: As :func:`rotta.nn.fusion.fuse_relus` returns it; not changed. If that could not say
            what it computes, there is no second one.

    Returns:
        A network with normalisation layers and parameters in common with ``net``, to be called
        where :func:`usable`; ``net`` itself where there is nothing to pack.

    Example:
        >>> from rotta.nn.fusion import fuse_relus
        >>> bn = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3)).eval()
        >>> net = fuse_relus(nn.Sequential(bn, nn.ReLU(), nn.Conv2d(3, 4, 1)).requires_grad_(False))
        >>> x = torch.rand(2, 3, 8, 8)
        >>> with torch.no_grad():
        ...     torch.allclose(pack_convolutions(net)(x), net(x), atol=1e-5)
        True
    """
    if not isinstance(net, fx.GraphModule):
        return net
    graph = fx.Graph()
    graph.output(graph.graph_copy(net.graph, val_map={}))
    chosen = _packable_layers(graph, net)
    if not chosen:
        return net
    for node in list(graph.nodes):
        if node.op == "call_module" and node.target in chosen and _may_make_sum(node, net):
            _make_sum(graph, node)
    packed = fx.GraphModule(net, graph)
    for name, conv in chosen.items():
        packed.set_submodule(name, PackedConv2d(conv))
    return packed


def _packable_layers(graph: fx.Graph, net: nn.Module) -> dict[str, nn.Conv2d]:
    """By name; those that are called in the one usual way."""
    calls: dict[str, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_module":
            calls.setdefault(str(node.target), []).append(node)
    return {
        name: layer
        for name, nodes in calls.items()
        if isinstance(layer := net.get_submodule(name), nn.Conv2d)
        and is_packable(layer)
        and all(len(node.args) == 1 and not node.kwargs for node in nodes)
    }


def _may_make_sum(conv: fx.Node, net: nn.Module) -> bool:
    """Whether the next step adds the result, its only user, to what may be overwritten.

    The next: what a convolution reads might change until a later one.
    """
    add = conv.next
    if list(conv.users) != [add] or not _is_sum_of_two(add):
        return False
    summand = _other(add, conv)
    readers = [user for user in summand.users if user is not add]
    return (
        _is_new(summand, net)
        and conv not in readers
        and all(reader < add and _makes_anew(reader, net) for reader in readers)
    )


def _make_sum(graph: fx.Graph, conv: fx.Node) -> None:
    add = conv.next
    conv.args = (*conv.args, _other(add, conv))
    add.replace_all_uses_with(conv)
    graph.erase_node(add)


def _is_sum_of_two(node: fx.Node) -> bool:
    return (
        _is_call_of(node, _ADDS + _ADDS_IN_PLACE)
        and not node.kwargs
        and len(node.args) == 2
        and len(node.all_input_nodes) == 2
    )


def _is_call_of(node: fx.Node, targets: tuple[object, ...]) -> bool:
    return node.op in ("call_function", "call_method") and node.target in targets


def _other(add: fx.Node, conv: fx.Node) -> fx.Node:
    first, second = add.all_input_nodes
    return second if first is conv else first


def _is_new(value: fx.Node, net: nn.Module) -> bool:
    """Whether a value is a tensor in memory that no other value has."""
    if value.op == "call_module":
        return type(net.get_submodule(str(value.target))) is nn.Conv2d
    if _is_call_of(value, _ADDS_IN_PLACE):
        changed = value.all_input_nodes[0]
        return value.args[0] is changed and len(changed.users) == 1 and _is_new(changed, net)
    if _is_call_of(value, _ADDS) and "out" not in value.kwargs:
        return any(_is_new(each, net) for each in value.all_input_nodes)
    return False


def _makes_anew(node: fx.Node, net: nn.Module) -> bool:
    """Whether a step leaves alone what it reads, and returns no view of it."""
    if node.op != "call_module":
        return False
    layer = net.get_submodule(str(node.target))
    if isinstance(layer, RobustBatchNorm):
        return not layer.may_overwrite
    return type(layer) is nn.Conv2d and len(node.args) == 1
