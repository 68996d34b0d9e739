"""A guard for methods that learn: is it still better than not to have learnt, and if not, what."""

from rotta.guard.events import ACTIONS, Event
from rotta.guard.guard import Guard
from rotta.guard.rule import EvidenceOfHarm
from rotta.guard.signals import lost_belief

__all__ = ["ACTIONS", "Event", "EvidenceOfHarm", "Guard", "lost_belief"]
