"""All that a stream has become, apart from the tables in which it lies: to be kept and read."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from rotta.guard import Guard
from rotta.pool.banks import Held
from rotta.pool.numbers import FIELDS
from rotta.pool.stream import Record
from rotta.state_file import state_from_bytes, state_to_bytes

_KIND = "stream"


@dataclass(frozen=True)
class StreamState:
    """The state of one stream."""

    numbers: Tensor
    """See :mod:`rotta.pool.numbers`, (14, ΣC)."""
    bank: Held
    generator: Tensor
    """The random state of its strong views."""
    guard: dict[str, Any] | None
    """What its guard remembers, if it has one."""
    record: Record

    def to_bytes(self, identity: dict[str, Any]) -> bytes:
        """As safetensors with a checksum, see :func:`rotta.state_file.write_state`.

        Args:
            identity: Of the pool.
        """
        content = {
            "pool": identity,
            "numbers": self.numbers,
            "bank": vars(self.bank),
            "generator": self.generator,
            "guard": self.guard,
            "record": vars(self.record),
        }
        return state_to_bytes(_KIND, content)

    @classmethod
    def from_bytes(cls, data: bytes, identity: dict[str, Any], named: str) -> "StreamState":
        """Read what :meth:`to_bytes` gave.

        Args:
            data: All of it.
            identity: Of the pool in which it shall go on.
            named: What to call it in messages.

        Raises:
            ValueError: It is damaged, newer, or of another network or with other options.
        """
        content = state_from_bytes(data, _KIND, named)
        try:
            _check_identity(content["pool"], identity, named)
            state = cls(
                numbers=content["numbers"],
                bank=Held(**content["bank"]),
                generator=content["generator"],
                guard=content["guard"],
                record=Record(**content["record"]),
            )
            _check_tensors(state, identity)
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(
                f"{named} lacks something ({error}): use an earlier copy of it, or start anew"
            ) from error
        return state


def _check_identity(saved: dict[str, Any], own: dict[str, Any], named: str) -> None:
    differing = sorted(
        f"{name}={saved.get(name)!r} instead of {value!r}"
        for name, value in own.items()
        if saved.get(name) != value
    )
    if differing:
        raise ValueError(
            f"{named} was saved by another pool, with {', '.join(differing)}: use the network and "
            "the options of that time"
        )


def _check_tensors(state: StreamState, identity: dict[str, Any]) -> None:
    """Refuse what was put together by hand and does not fit."""
    bank, size = state.bank, len(state.bank.label)
    of_places = {
        "label": torch.int64,
        "arrived": torch.int64,
        "uncertainty": torch.float64,
    }
    fits = (
        state.numbers.shape == (FIELDS, identity["channels"])
        and str(state.numbers.dtype) == identity["dtype"]
        and size <= identity["capacity"]
        and all(
            getattr(bank, name).shape == (size,) and getattr(bank, name).dtype == dtype
            for name, dtype in of_places.items()
        )
        and all(0 <= label < identity["num_classes"] for label in bank.label.tolist())
        and (size == 0 or tuple(bank.images.shape) == (size, *(state.record.shape or ())))
        and len(state.record.counts) == identity["num_classes"]
        and (state.guard is None or Guard.fits(state.guard))
        and (state.guard is not None) == identity["guard"]
        and all(hasattr(state.record, field.name) for field in fields(Record))
    )
    if not fits:
        raise TypeError("its parts do not fit together")
    torch.Generator().set_state(state.generator)
