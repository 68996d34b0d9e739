"""Methods that predict on a stream and adapt while they do. They see images, never labels."""

from rotta.adapters.base import Adapter
from rotta.adapters.bn import BN
from rotta.adapters.cotta import CoTTA
from rotta.adapters.lame import LAME
from rotta.adapters.lasting import LastingRoTTA
from rotta.adapters.methods import METHODS, PAPER_METHODS, adapt
from rotta.adapters.note import NOTE
from rotta.adapters.pl import PL
from rotta.adapters.rotta import RoTTA
from rotta.adapters.source import Source
from rotta.adapters.tent import TENT

__all__ = [
    "BN",
    "LAME",
    "METHODS",
    "NOTE",
    "PAPER_METHODS",
    "PL",
    "TENT",
    "Adapter",
    "CoTTA",
    "LastingRoTTA",
    "RoTTA",
    "Source",
    "adapt",
]
