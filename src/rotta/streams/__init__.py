"""Test streams: which sample comes when, and the batches in which a model meets them."""

from rotta.streams.arrivals import ARRIVALS, Arrival
from rotta.streams.domains import ORDERS, PAPER_ORDER, SETTINGS, Setting
from rotta.streams.plan import Timeline
from rotta.streams.stream import Batch, Stream

__all__ = [
    "ARRIVALS",
    "ORDERS",
    "PAPER_ORDER",
    "SETTINGS",
    "Arrival",
    "Batch",
    "Setting",
    "Stream",
    "Timeline",
]
