"""Ask a server that ``rotta serve`` has started; needs no packages but those of rotta itself."""

from rotta.client.answers import Counters, Prediction, Ranked, RefusedError, StreamState
from rotta.client.bodies import Images
from rotta.client.client import Client

__all__ = ["Client", "Counters", "Images", "Prediction", "Ranked", "RefusedError", "StreamState"]
