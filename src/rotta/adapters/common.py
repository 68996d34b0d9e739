"""Options that every method has besides its own."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from types import UnionType
from typing import Any, TypedDict, Union, get_args, get_origin, get_type_hints

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


_IN_WORDS = {bool: "True or False", float: "a number", str: "a string"}


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
    (wanted,) = _types_of(_hints_of(kind)[option])
    assert isinstance(wanted, type), f"{option} is of several types"
    return wanted


def check_options(kind: type, options: dict[str, Any]) -> None:
    """Refuse options of another type than they are declared with.

    Args:
        kind: A method.
        options: By name; names that it does not know are its constructor's to refuse.

    Raises:
        ValueError: Names the first.

    Example:
        >>> import rotta
        >>> check_options(rotta.TENT, {"guard": "false"})
        Traceback (most recent call last):
        ValueError: guard must be True or False, got 'false'
    """
    try:
        hints = _hints_of(kind)
    except NameError:  # a method of somebody's own, whose types are known to type checkers alone
        return
    for name, value in options.items():
        wanted = _types_of(hints.get(name))
        if len(wanted) != 1 or wanted[0] not in _IN_WORDS or value is None:
            continue
        if not (isinstance(value, wanted[0]) or (wanted[0] is float and type(value) is int)):
            raise ValueError(f"{name} must be {_IN_WORDS[wanted[0]]}, got {value!r}")


def signature_of(kind: type) -> Signature:
    """How a method is built: its constructor's arguments, the common options among them."""
    own = signature(_constructor(kind)).parameters
    named = [p for name, p in own.items() if name != "self" and p.kind is not p.VAR_KEYWORD]
    common = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in COMMON_DEFAULTS.items()
        if name not in own
    ]
    takes_common = any(p.kind is p.VAR_KEYWORD for p in own.values())
    return Signature([*named, *(common if takes_common else ())])


def check_bad_input(policy: str) -> None:
    """Refuse an unknown policy."""
    if policy not in BAD_INPUT:
        raise ValueError(f"bad_input must be one of {', '.join(BAD_INPUT)}, not {policy!r}")


def _hints_of(kind: type) -> dict[str, Any]:
    return {**get_type_hints(CommonOptions), **get_type_hints(_constructor(kind))}


def _types_of(hint: Any) -> list[Any]:
    either = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [part for part in either if part is not type(None)]


def _own_defaults(kind: type) -> dict[str, Any]:
    return _constructor(kind).__kwdefaults__ or {}


def _constructor(kind: type) -> Callable[..., None]:
    constructor: Callable[..., None] = kind.__init__  # type: ignore[misc]
    return constructor
