"""This package's version, and what else may change a number: packages, kernels for this CPU."""

import platform
from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Name to version, for the record.

    Example:
        >>> sorted(versions())
        ['CPU kernels', 'numpy', 'pillow', 'python', 'rotta', 'torch']
    """
    found = {"python": platform.python_version(), "rotta": __version__}
    for package in ("torch", "numpy", "pillow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    from rotta.nn import native  # not sooner: this file is read before there is any torch

    found["CPU kernels"] = native.level()
    return found
