"""Let normalisation layers do the ReLU that follows them: one pass over memory instead of two."""

import operator
from collections.abc import Callable
from itertools import chain

import torch
import torch.nn.functional as F
from torch import fx, nn

from rotta.nn.relu_norm import ReluNorm
from rotta.nn.surgery import HOOKS
from rotta.nn.tracing import steps_of, traced

_RELUS = (torch.relu, torch.relu_, F.relu, F.relu_)
_ADDS = (operator.add, torch.add)
_ADDS_IN_PLACE = (operator.iadd, "add_")
PACKAGES = ("rotta", "torch", "torchvision", "timm")


def fuse_relus(net: nn.Module, packages: tuple[str, ...] = PACKAGES) -> nn.Module:
    """Move every ReLU that alone follows one of our normalisations into it.

    What the network computes is found out by tracing it, and from then on its own Python code no
    longer runs. So only networks are traced whose code is known to do nothing besides. One that
    cannot be traced (its path depends on the images), that makes tensors of its own, or that
    somebody listens to by hooks, is left as it is too.

    Args:
        net: In evaluation mode; its normalisation layers are changed.
        packages: From which all its modules must be.

    Returns:
        A network that computes the same, with the same names for what it holds, in the same order;
        ``net`` itself where there is nothing to fuse.

    Example:
        >>> from rotta.nn.rbn import RobustBatchNorm
        >>> bn = RobustBatchNorm.from_batchnorm(nn.BatchNorm2d(3)).eval()
        >>> fused = fuse_relus(nn.Sequential(bn, nn.ReLU(), nn.Conv2d(3, 4, 1)))
        >>> [name for name, _ in fused.named_children()], bn.relu
        (['0', '2'], True)
    """
    steps = steps_of(net)
    if net in steps or not is_known(net, packages):
        return net
    try:
        graph = traced(net, steps)
    except Exception:  # a forward may raise anything when it is asked with a stand-in
        return net
    held = {name for name, _ in (*net.named_parameters(), *net.named_buffers())}
    if any(node.op == "get_attr" and node.target not in held for node in graph.nodes):
        return net
    norms = [module for module in net.modules() if isinstance(module, ReluNorm)]
    fused = [layer for layer in norms if _absorb_relus(graph, net, layer)]
    for layer in fused:
        inputs = [call.all_input_nodes[0] for call in _calls(graph, net, layer)]
        layer.relu = True
        layer.may_overwrite = all(_is_its_own(each, net) for each in inputs)
    return _Fused(net, graph) if fused else net


class _Fused(fx.GraphModule):
    """A graph with all that the network holds which it was made from, in the same order.

    A graph leaves behind what predictions do not need; but where that holds tensors, they belong to
    the network's state. Copies of it are made by the same constructor.
    """

    def __init__(self, root: nn.Module, graph: fx.Graph, class_name: str = "GraphModule") -> None:
        super().__init__(root, graph, class_name)
        _take_tensors(root, self)
        _order(root, self)

    def _deepcopy_init(self) -> Callable[..., None]:
        return _Fused.__init__


def _take_tensors(net: nn.Module, fused: fx.GraphModule) -> None:
    for name, module in net.named_modules(remove_duplicate=False):
        if not any(True for _ in chain(module.parameters(), module.buffers())):
            continue
        try:
            own = fused.get_submodule(name)
        except AttributeError:
            fused.add_submodule(name, module)
            continue
        for key, parameter in module._parameters.items():
            if key not in own._parameters:
                own.register_parameter(key, parameter)
        for key, buffer in module._buffers.items():
            if key not in own._buffers:
                own.register_buffer(key, buffer)
        own._non_persistent_buffers_set |= module._non_persistent_buffers_set


def _order(net: nn.Module, fused: nn.Module) -> None:
    """The parts of each part in the order in which they were defined, not called."""
    for name, module in net.named_modules():
        try:
            own = fused.get_submodule(name)
        except AttributeError:  # a ReLU
            continue
        for held in ("_modules", "_parameters", "_buffers"):
            there, before = getattr(own, held), getattr(module, held)
            setattr(own, held, {key: there[key] for key in before if key in there})


def is_known(net: nn.Module, packages: tuple[str, ...] = PACKAGES) -> bool:
    """Whether all its modules are from known packages, and nobody listens to them or changed them.

    Example:
        >>> is_known(nn.Sequential(nn.ReLU())), is_known(nn.ReLU(), packages=("timm",))
        (True, False)
    """
    return all(_is_known(module, packages) for module in net.modules())


def _is_known(module: nn.Module, packages: tuple[str, ...]) -> bool:
    listened_to = any(getattr(module, kind) for kind in HOOKS)
    from_package = type(module).__module__.split(".")[0] in packages
    return from_package and not listened_to and "forward" not in module.__dict__


def _absorb_relus(graph: fx.Graph, net: nn.Module, layer: ReluNorm) -> bool:
    """Take out the ReLUs after a layer, if after each of its calls comes one and nothing else."""
    calls = _calls(graph, net, layer)
    after = [list(call.users) for call in calls]
    if not calls or not all(len(users) == 1 and _is_relu(users[0], net) for users in after):
        return False
    for call, (relu,) in zip(calls, after, strict=True):
        relu.replace_all_uses_with(call)
        graph.erase_node(relu)
    return True


def _calls(graph: fx.Graph, net: nn.Module, layer: nn.Module) -> list[fx.Node]:
    return [
        node
        for node in graph.nodes
        if node.op == "call_module" and net.get_submodule(str(node.target)) is layer
    ]


def _is_its_own(value: fx.Node, net: nn.Module) -> bool:
    """Whether a value is new memory, which its one user may overwrite."""
    if len(value.users) > 1:
        return False
    if value.op == "call_module":
        return type(net.get_submodule(str(value.target))) is nn.Conv2d
    if value.target in _ADDS_IN_PLACE:
        return _is_its_own(value.all_input_nodes[0], net)
    return value.op == "call_function" and value.target in _ADDS and "out" not in value.kwargs


def _is_relu(node: fx.Node, net: nn.Module) -> bool:
    if node.op == "call_module":
        return type(net.get_submodule(str(node.target))) is nn.ReLU
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return node.op == "call_function" and node.target in _RELUS
