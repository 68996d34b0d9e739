"""One model for many streams over HTTP; needs ``pip install 'rotta[serve]'``, but for the stores.

Example:
    >>> from pathlib import Path
    >>> import tempfile
    >>> from rotta.client import Client
    >>> from rotta.serve import Service, load_model, serving
    >>> service = Service(load_model("digits"), store=Path(tempfile.mkdtemp()) / "state.sqlite")
    >>> with serving(service) as url:
    ...     Client(url).streams()
    []
"""

from typing import TYPE_CHECKING, Any

from rotta.serve.limits import Limits
from rotta.serve.served_model import ServedModel, load_model
from rotta.serve.stores import open_store

if TYPE_CHECKING:
    from rotta.serve.server import listen, run, serving
    from rotta.serve.service import Service

__all__ = [
    "Limits",
    "ServedModel",
    "Service",
    "listen",
    "load_model",
    "open_store",
    "run",
    "serving",
]


def __getattr__(name: str) -> Any:
    """Import what needs FastAPI only when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from rotta.serve import server
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "serving needs a few packages more: pip install 'rotta[serve]'", name=error.name
        ) from error
    return getattr(server, name)
