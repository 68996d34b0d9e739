"""Where the states of streams are kept between two lives of a server."""

from rotta.serve.stores.base import Store
from rotta.serve.stores.opening import open_store
from rotta.serve.stores.write_behind import Saving, WriteBehind

__all__ = ["Saving", "Store", "WriteBehind", "open_store"]
