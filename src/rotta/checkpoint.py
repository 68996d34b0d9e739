"""Where a walk is, on the disk: it can be killed, and goes on from there."""

import hashlib
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rotta.adapters import Adapter
from rotta.kept import whole_number
from rotta.models.checksum import checksum
from rotta.saving import changed_state, restore_state
from rotta.state_file import read_state, write_state
from rotta.streams import Stream
from rotta.streams.arrivals import without_unused

SECONDS_BETWEEN = 60.0
"""Two checkpoints, unless somebody says otherwise: so much is done again at most."""
_KIND = "checkpoint of a walk"
_HOLDS = ("network", "stream", "method", "parts", "batches")
_REMEDY = "remove this one file, and resume again: its walk begins anew, all others go on"
_ODD = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError)
_SUFFIX = ".safetensors"
_LEG = "-batches"  # in a file's name, before its first and last


class Resumable(Protocol):
    """What gathers something on a walk."""

    def state(self) -> Any:
        """All of it, as tensors, numbers and what holds them."""

    def restore(self, state: Any) -> None:
        """Go on from what another had gathered, if it is that."""


class Checkpoint:
    """The file of one walk, written anew after so many seconds.

    Args:
        path: Of the file.
        model: The method that walks.
        every: Seconds between two checkpoints; ``math.inf`` for none.
        network: The checksum of the model's network, if it is known already.
        leg: The batches along which the walk goes, if not along the whole stream.

    Example:
        >>> import rotta, tempfile
        >>> from rotta.walk import walk
        >>> stream = rotta.Stream(rotta.load_dataset("digits"), batch_size=300)
        >>> model = rotta.adapt(rotta.load_source("digits"), "tent")
        >>> checkpoint = Checkpoint(Path(tempfile.mkdtemp()) / "tent.safetensors", model, every=0)
        >>> walked = walk(model, stream, checkpoint=checkpoint)
        >>> checkpoint.remove()  # or the next walk would begin where this one was
    """

    def __init__(
        self,
        path: Path,
        model: Adapter,
        every: float = SECONDS_BETWEEN,
        network: str | None = None,
        leg: range | None = None,
    ) -> None:
        self.path = path
        self._model = model
        self._every = every
        self._network = network or checksum(model.source_net)
        self._leg = leg
        self._last = time.monotonic()

    def resume(self, stream: Stream, parts: Mapping[str, Resumable]) -> int:
        """Put all into the state of the file, if there is one.

        Args:
            stream: Along which the walk goes.
            parts: What gathers something on the way.

        Returns:
            How many batches of the stream were done, or were none of the leg's.

        Raises:
            ValueError: The file is damaged, or of another walk; the method has not changed.
        """
        if not self.path.exists():
            return 0
        kept = read_state(self.path, _KIND, _REMEDY)
        try:
            network, described, method, notes, batches = (kept[name] for name in _HOLDS)
            self._check_walk(stream, network, described)
            self._check_place(stream, batches)
            for name, part in parts.items():
                part.restore(notes[name])
        except _AnotherWalk:
            raise
        except _ODD as error:
            raise ValueError(
                f"{self.path} was kept by another version of rotta, or is damaged "
                f"({type(error).__name__}: {error}): {_REMEDY}"
            ) from error
        try:  # last of all, for the method is changed as a whole or not at all
            restore_state(self._model, method)
        except ValueError as error:
            raise _AnotherWalk(self.path, f": {error}, or remove the checkpoint") from error
        return int(batches)

    def _check_walk(self, stream: Stream, network: Any, described: Any) -> None:
        held = {"network": network, "stream": without_unused(described)}
        own = {"network": self._network, "stream": without_unused(self._identity(stream))}
        for what in own:
            if held[what] != own[what]:
                raise _AnotherWalk(self.path, f", with another {what}: remove it, or restore that")

    def _check_place(self, stream: Stream, batches: Any) -> None:
        leg = self._leg or range(len(stream))
        if not leg.start <= whole_number(batches) <= leg.stop:
            raise ValueError(f"{batches} batches done of those from {leg.start} to {leg.stop}")

    @property
    def is_wanted(self) -> bool:
        """Whether there shall be any."""
        return self._every < math.inf

    def is_due(self) -> bool:
        """Whether the last one was long enough ago."""
        return time.monotonic() - self._last >= self._every

    def keep(self, batches: int, stream: Stream, parts: Mapping[str, Resumable]) -> None:
        """Write the file.

        Args:
            batches: How many of the stream are done, or are none of the leg's.
            stream: Along which the walk goes.
            parts: What gathers something on the way.

        Raises:
            OSError: It cannot be written; the one before is untouched.
        """
        content = {
            "network": self._network,
            "stream": self._identity(stream),
            "method": changed_state(self._model),
            "parts": {name: part.state() for name, part in parts.items()},
            "batches": batches,
        }
        write_state(self.path, _KIND, content)
        self._last = time.monotonic()

    def remove(self) -> None:
        """Delete the file, if there is one: the walk is over."""
        self.path.unlink(missing_ok=True)

    def _identity(self, stream: Stream) -> dict[str, Any]:
        whole = _identity(stream)
        return whole if self._leg is None else {**whole, "leg": (self._leg.start, self._leg.stop)}


class _AnotherWalk(ValueError):
    """A checkpoint does not belong to this walk."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(f"{path} is the checkpoint of another walk{how}")


@dataclass(frozen=True)
class Checkpoints:
    """Those of a comparison, in a folder: a file for each walk that is under way, or several for
    one that is done in legs."""

    folder: Path
    every: float = SECONDS_BETWEEN
    """Seconds between two of the same walk."""

    def of(
        self, label: str, seed: int, model: Adapter, network: str, leg: range | None = None
    ) -> Checkpoint:
        """That of a walk, or of a leg of it.

        Args:
            label: Of the method, with its options.
            seed: Of the stream.
            model: The method.
            network: The checksum of its network.
            leg: Its batches.
        """
        name = self._name(label, seed)
        if leg is not None:  # so that legs which were cut otherwise are not even looked at
            name += f"{_LEG}{leg.start}-{leg.stop}"
        return Checkpoint(self.folder / f"{name}{_SUFFIX}", model, self.every, network, leg)

    def remove(self, label: str, seed: int) -> None:
        """Delete all of a walk which is over, if there are any."""
        name = self._name(label, seed)
        for of_it in (f"{name}{_SUFFIX}", f"{name}{_LEG}*{_SUFFIX}"):
            for pattern in (of_it, f".{of_it}.*"):  # half written: somebody was killed over it
                for path in self.folder.glob(pattern):
                    path.unlink(missing_ok=True)

    def remove_folder(self) -> None:
        """Delete the folder if nothing is left in it; for when nobody writes into it any more."""
        with suppress(OSError):  # there is something in it, or it was never made
            self.folder.rmdir()

    def _name(self, label: str, seed: int) -> str:
        # options may be longer than a file's name, and hold what no file's name may hold
        options = hashlib.sha256(label.encode()).hexdigest()[:8]
        return f"{label.partition(':')[0]}-{options}-seed{seed}"


def _identity(stream: Stream) -> dict[str, Any]:
    """What tells a stream from others over the same dataset."""
    return {
        "setting": stream.setting.name,
        "delta": stream.delta,
        "domains": stream.domains,
        "severity": stream.severity,
        "visits": stream.visits,
        "batch_size": stream.batch_size,
        "seed": stream.seed,
        "arrival": stream.arrival.name,
        "length": stream.length,
        "imbalance": stream.imbalance,
        "batches": len(stream),
    }
