"""Options that every method has besides its own."""

from collections.abc import Callable
from typing import Any, TypedDict, get_args, get_type_hints

BAD_INPUT = ("raise", "skip")


class SafetyOptions(TypedDict, total=False):
    """Those by which a method can be left alone."""

    bad_input: str
    guard: bool
    reset_every: int | None


class CommonOptions(SafetyOptions, total=False):
    """Keywords that a method hands on to :class:`~rotta.adapters.base.Adapter`."""

    class_mix: bool


COMMON_DEFAULTS: dict[str, Any] = {
    "bad_input": "raise",
    "class_mix": False,
    "guard": False,
    "reset_every": None,
}
"""What they are if they are left out."""


def defaults_of(kind: type) -> dict[str, Any]:
    """All options of a method with their defaults, its own first.

    Example:
        >>> import rotta
        >>> defaults_of(rotta.TENT)
        {'lr': 0.001, 'bad_input': 'raise', 'class_mix': False, 'guard': False, 'reset_every': None}
    """
    own = _own_defaults(kind)
    return {**own, **COMMON_DEFAULTS, **own}


def type_of(kind: type, option: str) -> type:
    """As it is declared, whether or not it may be left to itself with ``None``."""
    hints = {**get_type_hints(CommonOptions), **get_type_hints(_constructor(kind))}
    hint = hints[option]
    (wanted,) = (part for part in get_args(hint) or (hint,) if part is not type(None))
    assert isinstance(wanted, type), f"{option} is of several types"
    return wanted


def check_bad_input(policy: str) -> None:
    """Refuse an unknown policy."""
    if policy not in BAD_INPUT:
        raise ValueError(f"bad_input must be one of {', '.join(BAD_INPUT)}, not {policy!r}")


def _own_defaults(kind: type) -> dict[str, Any]:
    return _constructor(kind).__kwdefaults__ or {}


def _constructor(kind: type) -> Callable[..., None]:
    constructor: Callable[..., None] = kind.__init__  # type: ignore[misc]
    return constructor
