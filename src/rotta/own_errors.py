"""What a method raises, told from what its stream raises."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from rotta.ends import Failed
from rotta.guard import Event
from rotta.metrics import Memory


class MethodRaised(Exception):
    """A method raised what is the cause of this."""

    def failed(self, label: str, seed: int) -> Failed:
        """The end of that method's walk."""
        where = "".join(traceback.format_exception(self.__cause__))
        return Failed(label, seed, str(self), where)


@contextmanager
def as_its_own() -> Iterator[None]:
    """Turn any exception inside of the block into :class:`MethodRaised`.

    Example:
        >>> with as_its_own():
        ...     raise RuntimeError("out of memory")
        Traceback (most recent call last):
        rotta.own_errors.MethodRaised: RuntimeError: out of memory
    """
    try:
        yield
    except Exception as error:
        raise MethodRaised(f"{type(error).__name__}: {error}") from error


class Answerable:
    """A method whose exceptions say that they are its own.

    Args:
        method: What is called.
    """

    def __init__(self, method: nn.Module) -> None:
        self._method = method

    def __call__(self, x: Tensor) -> Tensor:
        """What the method answers."""
        with as_its_own():
            logits: Tensor = self._method(x)
            return logits

    def reset(self) -> None:
        """Reset the method, if it can be."""
        reset = getattr(self._method, "reset", None)
        if reset is not None:
            with as_its_own():
                reset()

    @property
    def bank(self) -> Memory | None:
        """The method's, if it has one."""
        return getattr(self._method, "bank", None)

    @property
    def events(self) -> list[Event]:
        """What the method's guard did."""
        return getattr(self._method, "events", [])

    @property
    def skipped(self) -> dict[str, int]:
        """What the method left out."""
        return getattr(self._method, "skipped", {})
