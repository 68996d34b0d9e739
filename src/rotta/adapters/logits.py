"""What a network answers: its logits, and how uncertain they are."""

from collections.abc import Callable
from typing import Any

from torch import Tensor


class Intact:
    """Asks a network about images, which stay as they are even if it works on them in place.

    Whether it does is found out at its answers; as soon as it has, it is given copies. The first is
    given one anyway, so only a network that begins later has a batch to write into. What is written
    past PyTorch, by numpy or through ``.data``, is not seen.

    Example:
        >>> import torch
        >>> x, ask = torch.ones(2, 3), Intact()
        >>> ask(torch.relu_, x - 2).tolist() == ask(lambda y: y.sub_(1), x).tolist()
        True
        >>> x.tolist()
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    def __init__(self) -> None:
        self._writes: bool | None = None

    def __call__(self, net: Callable[[Tensor], Any], x: Tensor) -> Any:
        """What ``net`` returns for images, (B, C, H, W)."""
        own = x if self._writes is False else x.clone()
        if self._writes or own.is_inference():  # which does not count the changes made to it
            return net(own)
        before = own._version
        output = net(own)
        self._writes = own._version != before
        return output


class AnswerError(ValueError):
    """What a network returns is not what methods need, whatever it is asked."""


def logits_of(output: Any, num_classes: int | None = None) -> Tensor:
    """The logits in what a network returned.

    Raises:
        AnswerError: There are none, or not ``num_classes`` of them.
    """
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise AnswerError(
            "the network must return logits, (B, num_classes), or an object that has them as "
            f".logits, not {type(output).__name__}{_shape_of(logits)}"
        )
    if num_classes is not None and logits.shape[1] != num_classes:
        raise AnswerError(
            f"the network tells {logits.shape[1]} classes apart, not num_classes={num_classes}: "
            f"pass num_classes={logits.shape[1]}"
        )
    return logits


def checked_logits(net: Callable[[Tensor], Any], x: Tensor, num_classes: int) -> Tensor:
    """What a network says about images, (B, C, H, W): (B, num_classes).

    Raises:
        AnswerError: It says something else.
    """
    logits = logits_of(net(x), num_classes)
    if len(logits) != len(x):
        raise AnswerError(f"the network gave {len(logits)} rows of logits for {len(x)} images")
    return logits


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the softmax in nats, (B,), with log(p + 1e-6) as the published code has it."""
    p = logits.softmax(dim=1)
    return -(p * (p + 1e-6).log()).sum(dim=1)


def exact_entropy(logits: Tensor) -> Tensor:
    """Entropy of the softmax in nats, (B,), to be minimised: smooth wherever logits go."""
    return -(logits.softmax(dim=1) * logits.log_softmax(dim=1)).sum(dim=1)


def _shape_of(value: object) -> str:
    return f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
