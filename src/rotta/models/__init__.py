"""SourceModel networks: architectures, safe loading, training."""

from rotta.models.architectures import ARCHITECTURES, build
from rotta.models.checkpoint import read_weights, save_weights
from rotta.models.classifier import Classifier
from rotta.models.loading import load_into
from rotta.models.scoring import error_rate
from rotta.models.sources import SOURCES, SourceModel, build_from, load_source
from rotta.models.train import train

__all__ = [
    "ARCHITECTURES",
    "SOURCES",
    "Classifier",
    "SourceModel",
    "build",
    "build_from",
    "error_rate",
    "load_into",
    "load_source",
    "read_weights",
    "save_weights",
    "train",
]
