"""Practical test-time adaptation: streams that drift, and models that keep up.

Example:
    >>> import rotta
    >>> net = rotta.load_source("digits")
    >>> stream = rotta.Stream(rotta.load_dataset("digits-c"), delta=0.1, batch_size=64, seed=0)
    >>> stream.domains[:3]
    ('motion_blur', 'snow', 'fog')
"""

from rotta.adapters import (
    BN,
    LAME,
    METHODS,
    NOTE,
    PL,
    TENT,
    Adapter,
    CoTTA,
    LastingRoTTA,
    RoTTA,
    Source,
    adapt,
)
from rotta.corruptions import CORRUPTIONS, corrupt
from rotta.datasets import DATASETS, load_dataset
from rotta.evaluate import Step, evaluate
from rotta.models import ARCHITECTURES, SOURCES, error_rate, load_source, train
from rotta.pool import StreamPool
from rotta.saving import load, save
from rotta.streams import ARRIVALS, ORDERS, SETTINGS, Batch, Stream
from rotta.versions import __version__

__all__ = [
    "ARCHITECTURES",
    "ARRIVALS",
    "BN",
    "CORRUPTIONS",
    "DATASETS",
    "LAME",
    "METHODS",
    "NOTE",
    "ORDERS",
    "PL",
    "SETTINGS",
    "SOURCES",
    "TENT",
    "Adapter",
    "Batch",
    "CoTTA",
    "LastingRoTTA",
    "RoTTA",
    "Source",
    "Step",
    "Stream",
    "StreamPool",
    "__version__",
    "adapt",
    "corrupt",
    "error_rate",
    "evaluate",
    "load",
    "load_dataset",
    "load_source",
    "save",
    "train",
]
