"""One network for thousands of streams, each of which adapts on its own."""

from rotta.pool.pool import StreamPool
from rotta.pool.records import BankContents, Prediction, Request, StreamInfo
from rotta.pool.seeds import stream_seed
from rotta.pool.store import MemoryStore, StateStore, StoreError

__all__ = [
    "BankContents",
    "MemoryStore",
    "Prediction",
    "Request",
    "StateStore",
    "StoreError",
    "StreamInfo",
    "StreamPool",
    "stream_seed",
]
