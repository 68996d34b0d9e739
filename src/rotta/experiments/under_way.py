"""Where long walks are, on the disk: one that is killed goes on from there."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rotta import checkpoint, folders
from rotta.checkpoint import Checkpoints

if TYPE_CHECKING:
    from rotta.experiments.tasks import Walk

SECONDS_BETWEEN = checkpoint.SECONDS_BETWEEN
_DECIDE = ("commit", "versions", "device", "cpu kernels", "data", "source weights")
_DIGITS = 16


def checkpoints_of(
    walk: "Walk", options: Mapping[str, Any], origin: Mapping[str, Any]
) -> Checkpoints | None:
    """Those of a walk of several visits, in ``$ROTTA_CACHE``; shorter ones are begun again.

    What was begun by other code, with other options, or over other images is dropped: its result
    would be half of one and half of the other.

    Args:
        walk: Which.
        options: Of the method, all that are in force.
        origin: What its result will state about where it comes from.
    """
    if walk.variant.visits == 1:
        return None
    folder = _folder(walk)
    decisive = {name: origin.get(name) for name in _DECIDE}
    own = folder / _digest([dict(options), decisive])
    for other in folder.glob("*"):
        if other != own:
            shutil.rmtree(other, ignore_errors=True)
    return Checkpoints(own, SECONDS_BETWEEN)


def forget(walk: "Walk") -> None:
    """Delete the checkpoints of a walk, if there are any: its result is stored."""
    shutil.rmtree(_folder(walk), ignore_errors=True)


def _folder(walk: "Walk") -> Path:
    return folders.cache() / "walks" / _digest(walk.identity._asdict())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
