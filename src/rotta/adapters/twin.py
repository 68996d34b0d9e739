"""Copies of a method, which go on by themselves."""

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

from rotta.adapters.learnt import addresses

if TYPE_CHECKING:
    from rotta.adapters.base import Adapter

Kind = TypeVar("Kind", bound="Adapter")


def twin_of(method: Kind, start: Mapping[str, Any], memo: dict[int, Any]) -> Kind:
    """A deep copy but for what neither changes: that, both share with the network.

    Args:
        method: Of any kind.
        start: The state to which it returns, as far as it is noted.
        memo: What has been copied already, as ``copy.deepcopy`` keeps it.

    Example:
        >>> import rotta
        >>> model = rotta.TENT(rotta.load_source("digits"), num_classes=10)
        >>> twin = copy.deepcopy(model)
        >>> twin.source_net is model.source_net, twin.net is model.net
        (True, False)
    """
    given, before = addresses(method.source_net), memo.get(id(method.source_net))
    memo[id(method.source_net)] = method.source_net
    for tensor in (*method.parameters(), *method.buffers(), *start.values()):
        if isinstance(tensor, Tensor) and tensor.data_ptr() in given:
            is_parameter, alias = isinstance(tensor, nn.Parameter), tensor.detach()
            memo[id(tensor)] = nn.Parameter(alias, False) if is_parameter else alias
    twin = method.__new__(type(method))
    memo[id(method)] = twin
    twin.__dict__.update(copy.deepcopy(method.__dict__, memo))
    memo.pop(id(method.source_net))  # whoever holds both, and copies them, gets two networks
    if before is not None:
        memo[id(method.source_net)] = before
    return twin
