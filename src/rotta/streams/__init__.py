"""Test streams: which sample comes when, and the batches in which a model meets them."""

from rotta.streams.domains import ORDERS, PAPER_ORDER, SETTINGS, Setting
from rotta.streams.plan import Timeline
from rotta.streams.stream import Batch, Stream

__all__ = ["ORDERS", "PAPER_ORDER", "SETTINGS", "Batch", "Setting", "Stream", "Timeline"]
