"""A stream's state in plain values, for those who watch it."""

import torch
from torch import Tensor

from rotta.guard.signals import distance
from rotta.pool.numbers import TEACHER
from rotta.pool.records import BankContents, StreamInfo
from rotta.pool.stream_state import StreamState


def stream_info(name: str, state: StreamState, source: Tensor, *, resident: bool) -> StreamInfo:
    """How a stream is doing.

    Args:
        name: Its name.
        state: All of it.
        source: The numbers of the network as it was given, (14, ΣC).
        resident: Whether it is in memory.
    """
    record, bank = state.record, state.bank
    teacher, start = state.numbers[TEACHER], source[TEACHER].to(state.numbers.device)
    by_class = torch.bincount(bank.label, minlength=len(record.counts))
    return StreamInfo(
        name=name,
        resident=resident,
        frozen=record.frozen,
        requests=record.requests,
        samples=record.samples,
        updates=record.updates,
        last_used=record.last_used,
        entropy=record.entropy,
        lately=record.lately,
        bank_by_class=by_class.tolist(),
        bank_ages=(bank.clock - bank.arrived).tolist(),
        statistics_distance=float(distance([teacher[:2]], [start[:2]])),
        parameter_distance=float(distance([teacher[2:]], [start[2:]])),
        rate=record.rate,
        events=[] if state.guard is None else list(state.guard["events"]),
    )


def bank_contents(state: StreamState) -> BankContents:
    """Copies of what a stream's bank holds."""
    bank = state.bank
    return BankContents(
        images=bank.images.clone(),
        labels=bank.label.clone(),
        ages=bank.clock - bank.arrived,
        uncertainties=bank.uncertainty.clone(),
    )
