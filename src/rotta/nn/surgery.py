"""Swap layers of a network without touching the network that was given."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from rotta.nn.trained_norm import BatchNorm

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
OTHER_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)
"""Where modules hold who listens to them."""
Layer = TypeVar("Layer", bound=nn.Module)


def copy_sharing_weights(net: nn.Module) -> nn.Module:
    """A copy whose normalisation layers are its own and whose other parameters share memory.

    Methods that train only γ and β can hold several such copies at the cost of one network. The
    shared parameters are new ``Parameter`` objects without gradient, so the network that was
    given keeps its flags.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        >>> twin = copy_sharing_weights(net)
        >>> twin[0].weight.data_ptr() == net[0].weight.data_ptr(), twin[0].weight.requires_grad
        (True, False)
        >>> twin[1].weight.data_ptr() == net[1].weight.data_ptr(), net[0].weight.requires_grad
        (False, True)
    """
    own = {id(p) for norm in norm_layers(net) for p in norm.parameters(recurse=False)}
    shared = {
        id(p): nn.Parameter(p.detach(), requires_grad=False)
        for p in net.parameters()
        if id(p) not in own
    }
    return copy_of(net, shared)


def copy_of(net: nn.Module, instead: dict[int, nn.Parameter] | None = None) -> nn.Module:
    """A deep copy, whose buffers have a place in memory for each of their numbers.

    Args:
        net: Any.
        instead: What stands for tensors that are not copied, by their ``id``.

    Raises:
        ValueError: It cannot be copied; the message says what to do.

    Example:
        >>> net = nn.Identity()
        >>> net.register_buffer("ones", torch.ones(1).expand(5))
        >>> copy_of(net).ones.stride()
        (1,)
    """
    try:
        twin = copy.deepcopy(net, memo=dict(instead or {}))
    except RuntimeError as error:
        raise ValueError(
            f"the network cannot be copied ({error}): it holds tensors with a history, as the old "
            "torch.nn.utils.weight_norm does; torch.nn.utils.parametrizations has one that can"
        ) from error
    for module in twin.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and _repeats_itself(buffer):
                module._buffers[name] = buffer.contiguous()
    return twin


def _repeats_itself(buffer: Tensor) -> bool:
    """Whether several of its numbers lie in one place, so that no state can be copied into it."""
    return buffer.layout == torch.strided and any(
        size > 1 and stride == 0 for size, stride in zip(buffer.shape, buffer.stride(), strict=True)
    )


def norm_layers(net: nn.Module) -> Iterator[nn.Module]:
    """All normalisation layers, each once."""
    kinds = BATCH_NORMS + OTHER_NORMS
    return (module for module in net.modules() if isinstance(module, kinds))


def has_batch_norm(net: nn.Module) -> bool:
    """Whether there is any BatchNorm layer."""
    return any(isinstance(module, BATCH_NORMS) for module in net.modules())


def replace_batch_norms(net: nn.Module, make: Callable[[BatchNorm], nn.Module]) -> nn.Module:
    """Replace every BatchNorm layer of ``net`` in place; a layer used twice stays one layer.

    Returns:
        ``net``, or the new layer if ``net`` itself is a BatchNorm layer.

    Raises:
        ValueError: A kind of BatchNorm does more than normalise, and it is not known what.
    """
    if isinstance(net, BATCH_NORMS):
        return _replacement(net, make)
    made: dict[nn.Module, nn.Module] = {}
    for parent in list(net.modules()):
        for name, child in list(parent._modules.items()):  # a layer may have several names
            if isinstance(child, BATCH_NORMS):
                if child not in made:
                    made[child] = _replacement(child, make)
                setattr(parent, name, made[child])
    return net


def _replacement(bn: BatchNorm, make: Callable[[BatchNorm], nn.Module]) -> nn.Module:
    new = _in_its_place(bn, make)
    new._is_full_backward_hook = bn._is_full_backward_hook
    for kind in HOOKS:
        getattr(new, kind).update(
            (key, hook) for key, hook in getattr(bn, kind).items() if not _is_pytorchs(hook)
        )
    return new


def _is_pytorchs(hook: Callable[..., object]) -> bool:
    """Whether it makes γ or β, as pruning does: what it made has been taken over."""
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return str(module).startswith("torch.")


def _in_its_place(bn: BatchNorm, make: Callable[[BatchNorm], nn.Module]) -> nn.Module:
    """The new layer; where a subclass normalises and then goes on, the new layer and the rest.

    So do timm's layers that hold dropout and activation: their children, in this order.
    """
    if _only_normalises(bn):
        return make(bn)
    rest = list(bn.children())
    if not rest or not _goes_on_with_its_children(bn):
        raise ValueError(
            f"{type(bn).__name__} is a BatchNorm with a forward() of its own, and what it does "
            "besides normalising is unknown: use a plain nn.BatchNorm layer and put the rest into "
            "a module after it"
        )
    return nn.Sequential(make(bn), *rest)


def _only_normalises(bn: BatchNorm) -> bool:
    own_forward = "forward" in bn.__dict__ or type(bn).__call__ is not nn.Module.__call__
    return not own_forward and type(bn).forward in {kind.forward for kind in BATCH_NORMS}


@torch.no_grad()
def _goes_on_with_its_children(bn: BatchNorm) -> bool:
    """Whether it normalises and then calls its children in order: try it, on odd statistics."""
    probe = copy.deepcopy(bn).eval()
    for kind in HOOKS:  # of the network's images, not of this
        getattr(probe, kind).clear()
    if probe.running_mean is None or probe.running_var is None:
        return False
    probe.running_mean.fill_(0.5)
    probe.running_var.fill_(2.0)
    axes = {nn.BatchNorm1d: 1, nn.BatchNorm3d: 3}
    spatial = next((axes[kind] for kind in axes if isinstance(bn, kind)), 2)
    shape = (2, bn.num_features, *[3] * spatial)
    x = torch.linspace(-3, 3, math.prod(shape)).view(shape).to(probe.running_mean)
    after = torch.nn.functional.batch_norm(
        x, probe.running_mean, probe.running_var, probe.weight, probe.bias, eps=bn.eps
    )
    for module in probe.children():
        after = module(after)
    return torch.allclose(probe(x), after, atol=1e-5)


@contextmanager
def layers_training(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Within, these layers are in training mode; afterwards in evaluation mode.

    Only the normalisation layers of an update are meant: dropout would make it random.
    """
    for layer in layers:
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False


def train_only(net: nn.Module, parameters: list[nn.Parameter]) -> None:
    """Let gradients reach these parameters and no others."""
    net.requires_grad_(False)
    for parameter in parameters:
        parameter.requires_grad_(True)


def layers_of(net: nn.Module, *kinds: type[Layer]) -> list[Layer]:
    """The layers of these kinds, each once."""
    return [module for module in net.modules() if isinstance(module, kinds)]


def affine_parameters(net: nn.Module, kinds: tuple[type[nn.Module], ...]) -> list[nn.Parameter]:
    """γ and β of the layers of these kinds, each once."""
    found = [p for layer in layers_of(net, *kinds) for p in layer.parameters(recurse=False)]
    return list({id(p): p for p in found}.values())


@torch.no_grad()
def move_towards(target: Sequence[Tensor], source: Sequence[Tensor], share: float) -> None:
    """θ ← (1 − share)·θ + share·θ' for all pairs at once (Eq. 11 of RoTTA)."""
    torch._foreach_lerp_(list(target), list(source), share)
