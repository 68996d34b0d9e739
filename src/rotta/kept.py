"""What was kept of a walk's notes, looked at before it is taken over.

A checkpoint's checksum says that it is whole, not who made it.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def take_over(own: Tensor, kept: Any) -> None:
    """Copy sums or counts into those of the same form.

    Raises:
        ValueError: They are of another form; nothing was copied.

    Example:
        >>> import torch
        >>> counts = torch.zeros(2, dtype=torch.int64)
        >>> take_over(counts, torch.tensor([3, 4]))
        >>> counts.tolist()
        [3, 4]
        >>> take_over(counts, torch.tensor(5))
        Traceback (most recent call last):
        ValueError: torch.int64 of the form () instead of torch.int64 of the form (2,)
    """
    if not _alike(own, kept):
        raise ValueError(f"{_form(kept)} instead of {_form(own)}")
    own.copy_(kept)


def tensors_like(own: Tensor, kept: Any) -> list[Tensor]:
    """A list of such tensors.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(kept, list):
        raise ValueError(f"{_form(kept)} instead of a list")
    for each in kept:
        if not _alike(own, each):
            raise ValueError(f"{_form(each)} in a list of {_form(own)}")
    return list(kept)


def whole_number(kept: Any) -> int:
    """A number from 0 on.

    Raises:
        ValueError: It is something else.

    Example:
        >>> whole_number(True)
        Traceback (most recent call last):
        ValueError: bool instead of a whole number from 0 on
    """
    if type(kept) is not int or kept < 0:
        raise ValueError(f"{_form(kept)} instead of a whole number from 0 on")
    return kept


def whole_numbers(kept: Any) -> list[int]:
    """A list of numbers from 0 on.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(kept, list):
        raise ValueError(f"{_form(kept)} instead of a list")
    return [whole_number(number) for number in kept]


def counts_by_name(kept: Any) -> dict[str, int]:
    """Numbers from 0 on, each with what was counted.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(kept, Mapping) or not all(isinstance(name, str) for name in kept):
        raise ValueError(f"{_form(kept)} instead of counts by name")
    return {name: whole_number(count) for name, count in kept.items()}


def _alike(own: Tensor, kept: Any) -> bool:
    if not isinstance(kept, Tensor) or kept.is_complex():
        return False
    return kept.shape == own.shape and kept.is_floating_point() == own.is_floating_point()


def _form(kept: Any) -> str:
    if isinstance(kept, Tensor):
        return f"{kept.dtype} of the form {tuple(kept.shape)}"
    return str(kept) if type(kept) is int else type(kept).__name__
