"""Look names up in plain tables, and answer an unknown one with what to type instead."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return ``table[name]``.

    Args:
        table: What there is, by name.
        name: What was asked for.
        kind: What the table holds, in the singular, for the message: ``"corruption"``.

    Raises:
        ValueError: ``name`` is not in the table; near matches and all names are listed.

    Example:
        >>> lookup({"fog": 1, "frost": 2}, "fogg", "corruption")
        Traceback (most recent call last):
        ...
        ValueError: unknown corruption 'fogg': did you mean 'fog'? Available: fog, frost
    """
    if name in table:
        return table[name]
    if not table:
        raise ValueError(f"unknown {kind} {name!r}: there is none")
    near = get_close_matches(str(name).lower(), table, n=3, cutoff=0.5)
    hint = f": did you mean {' or '.join(repr(n) for n in near)}?" if near else "."
    raise ValueError(f"unknown {kind} {name!r}{hint} Available: {', '.join(table)}")
