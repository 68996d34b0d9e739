"""A guard for methods that learn: is it still better than not to have learnt, and if not, what."""

from rotta.guard.events import ACTIONS, GOOD_NEWS, Event
from rotta.guard.guard import Guard
from rotta.guard.pictures import shows_something
from rotta.guard.rule import EvidenceOfHarm
from rotta.guard.signals import lost_belief

__all__ = [
    "ACTIONS",
    "GOOD_NEWS",
    "Event",
    "EvidenceOfHarm",
    "Guard",
    "lost_belief",
    "shows_something",
]
