"""The pass of a network that nobody changes, which several methods can answer from."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor, nn

from rotta.adapters.logits import Intact, checked_logits


@dataclass(frozen=True, eq=False)
class Seen:
    """What the network made of a batch. Whoever answers from it must not write into it."""

    logits: Tensor
    """(B, num_classes)."""
    features: Tensor | None
    """What its last linear layer was given, (B, …); none if that was not called, or not wanted."""


class UnchangedPass:
    """Logits and features of a network as it is.

    Args:
        net: In evaluation mode.
        num_classes: C, the number of its outputs.
        features: Whether these are wanted. Without, nothing is hooked into the network, and several
            threads may ask at once.

    Attributes:
        features: As given.
        head: The last linear layer with that many outputs, whose input are the features; none if
            there is no such layer.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 10))
        >>> look = UnchangedPass(net, num_classes=10, features=True)
        >>> seen = look(torch.rand(4, 3, 2, 2))
        >>> seen.logits.shape, seen.features.shape
        (torch.Size([4, 10]), torch.Size([4, 12]))
    """

    def __init__(self, net: nn.Module, num_classes: int, *, features: bool) -> None:
        self._net = net
        self._num_classes = num_classes
        self._intact = Intact()
        self.features = features
        linear = (module for module in net.modules() if isinstance(module, nn.Linear))
        heads = [layer for layer in linear if layer.out_features == num_classes]
        self.head = heads[-1] if heads else None

    def __call__(self, x: Tensor) -> Seen:
        """What it makes of images, (B, C, H, W)."""
        with _inputs_of(self.head if self.features else None) as inputs:
            logits = checked_logits(partial(self._intact, self._net), x, self._num_classes)
        return Seen(logits, inputs[-1] if inputs else None)


class SharedPass:
    """One pass per batch for several methods: the first that asks has it done.

    Attributes:
        spared_ms: How long the passes would have taken that were not done again.
    """

    def __init__(self, once: UnchangedPass) -> None:
        self._once = once
        self._seen: Seen | None = None
        self._took_ms = 0.0
        self.spared_ms = 0.0

    @property
    def head(self) -> nn.Linear | None:
        """As :attr:`UnchangedPass.head`."""
        return self._once.head

    def next_batch(self) -> None:
        """Whoever asks now asks about other images than before."""
        self._seen = None

    def __call__(self, x: Tensor) -> Seen:
        """What the network makes of images, (B, C, H, W): the same until :meth:`next_batch`."""
        if self._seen is not None:
            self.spared_ms += self._took_ms
            return self._seen
        start = time.perf_counter()
        self._seen = self._once(x)
        self._took_ms = 1000 * (time.perf_counter() - start)
        return self._seen


class AroundNetwork(Protocol):
    """What share_pass has to know about a method."""

    source_net: nn.Module
    unchanged: UnchangedPass | SharedPass | None


def share_pass(methods: Sequence[AroundNetwork]) -> SharedPass | None:
    """Let methods around the same network, those that can, answer from one pass.

    Returns:
        The pass, to be told of each batch before the methods get it; none if no method can.

    Example:
        >>> import rotta, torch
        >>> net, x = rotta.load_source("digits"), torch.rand(8, 3, 32, 32)
        >>> source, lame = rotta.Source(net, 10), rotta.LAME(net, 10)
        >>> apart = lame(x)
        >>> shared = share_pass([source, lame])
        >>> for batch in (torch.zeros_like(x), x):
        ...     shared.next_batch()
        ...     answers = source(batch), lame(batch)
        >>> torch.equal(answers[1], apart), shared.spared_ms > 0
        (True, True)
    """
    passes = [method.unchanged for method in methods if method.unchanged is not None]
    if not passes:
        return None
    assert not any(isinstance(each, SharedPass) for each in passes), "it is shared already"
    own = [each for each in passes if isinstance(each, UnchangedPass)]
    shared = SharedPass(next((each for each in own if each.features), own[0]))
    for method in methods:
        if method.unchanged is not None:
            assert method.source_net is methods[0].source_net, "they see different networks"
            method.unchanged = shared
    return shared


@contextmanager
def _inputs_of(layer: nn.Linear | None) -> Iterator[list[Tensor]]:
    """What a layer is given inside of the block, call by call."""
    given: list[Tensor] = []
    if layer is None:
        yield given
        return

    def note(_: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor]) -> None:
        given.append(inputs[0] if inputs else named["input"])

    noting = layer.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield given
    finally:
        noting.remove()
