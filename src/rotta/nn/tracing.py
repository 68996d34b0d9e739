"""What a network computes, as a graph of its layers."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import fx, nn

from rotta.nn.relu_norm import ReluNorm

_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")


def steps_of(net: nn.Module) -> dict[nn.Module, str]:
    """What is one step of the graph: PyTorch's layers and our normalisations, by name."""
    is_layer = fx.Tracer().is_leaf_module
    return {
        module: name
        for name, module in net.named_modules()
        if isinstance(module, ReluNorm) or is_layer(module, name)
    }


def traced(net: nn.Module, steps: dict[nn.Module, str]) -> fx.Graph:
    """What the network computes of one argument.

    ``fx.Tracer.trace`` replaces ``nn.Module.__call__`` for the whole process meanwhile, which
    breaks networks that run in other threads. Here only the layers of this network, which nobody
    else has, are told to note their calls.
    """
    tracer = _Tracer()
    tracer.root, tracer.graph, tracer.tensor_attrs = net, fx.Graph(), {}
    images = tracer.create_proxy("placeholder", "x", (), {})
    try:
        for layer, name in steps.items():
            layer.forward = partial(_note_call, tracer, name)
        result = net(images)
    finally:
        for layer in steps:
            layer.__dict__.pop("forward", None)
    if not isinstance(result, fx.Proxy):
        raise ValueError("it returns more than a tensor")
    tracer.create_node("output", "output", (tracer.create_arg(result),), {})
    return tracer.graph


def _note_call(tracer: fx.Tracer, name: str, *inputs: Any, **named: Any) -> fx.Proxy:
    return tracer.create_proxy("call_module", name, inputs, named)


class _Value(fx.Proxy):
    """A value on its way, which knows that ``y += z`` changes it, whatever its other names are."""


def _noted_in_place(name: str) -> Callable[[_Value, Any], fx.Proxy]:
    operation = getattr(operator, f"i{name}")

    def note(self: _Value, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", operation, (self, other), {})

    return note


for _name in _IN_PLACE:
    setattr(_Value, f"__i{_name}__", _noted_in_place(_name))


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Value(node, self)
