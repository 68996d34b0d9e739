"""Reading the pickles in which CIFAR is published, without giving them the power to run code."""

import _codecs
import io
import pickle
from typing import Any

import numpy as np

_RECONSTRUCT = np.empty(0).__reduce__()[0]
"""NumPy's rebuilding function, taken from a pickled array: its module was renamed in NumPy 2."""

_ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("_codecs", "encode"): _codecs.encode,
}


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows arrays and plain containers, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return an allowed name; every class or function of a pickle comes through here."""
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def unpickle(content: bytes, *, name: str) -> Any:
    """Read a pickle of arrays, numbers, strings and containers.

    Python 2 strings come back as ``str``, byte for byte (Latin-1), as CIFAR's keys need.

    Args:
        content: The whole file.
        name: What to call it in a message.

    Raises:
        ValueError: The pickle asks for any other class or function (which is then neither
            imported nor called), or is damaged.

    Example:
        >>> unpickle(pickle.dumps({"labels": [3, 8]}), name="test_batch")
        {'labels': [3, 8]}
        >>> unpickle(pickle.dumps(len), name="test_batch")
        Traceback (most recent call last):
        ...
        ValueError: test_batch was refused: it asks for builtins.len; a CIFAR file holds ...
    """
    try:
        return _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{name} was refused: {error}; a CIFAR file holds arrays and plain containers only, "
            "so delete this one and fetch it from its official address"
        ) from error
    except Exception as error:  # damaged pickles raise nearly anything
        raise ValueError(
            f"{name} is not a readable pickle ({type(error).__name__}: {error}); "
            "delete it and fetch it again"
        ) from error
