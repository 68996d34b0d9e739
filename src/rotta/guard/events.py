"""What a guard did, when and why, in a form that JSON can hold."""

import math
from typing import TypedDict

ACTIONS = ("lower the rate", "roll back", "reset")
"""In the order of their severity. ``"raise the rate"`` undoes the first of them in good times.

``"leave out"`` is another: not to learn from images that show nothing, until ``"learn again"``.
"""
GOOD_NEWS = ("raise the rate", "learn again")
"""What a guard does when all is well again; everything else is an alarm."""


class Event(TypedDict):
    """One thing that a guard did."""

    batch: int
    """How many batches had come before."""
    action: str
    cause: str
    """``"lost belief"``, ``"not finite"``, ``"too far"``, ``"no picture"``, ``"healthy again"`` or
    ``"a picture again"``."""
    evidence: float
    """R, see :class:`~rotta.guard.rule.EvidenceOfHarm`."""
    rate: float
    """By which the learning rate is multiplied from now on."""
    signals: dict[str, float | None]
    """As they were last seen; ``None`` for what is not finite."""


def rounded(signals: dict[str, float]) -> dict[str, float | None]:
    """Enough digits to read; JSON knows no NaN.

    Example:
        >>> rounded({"entropy": 0.123456789, "gradient norm": math.nan})
        {'entropy': 0.12346, 'gradient norm': None}
    """
    return {
        name: float(f"{value:.5g}") if math.isfinite(value) else None
        for name, value in signals.items()
    }
