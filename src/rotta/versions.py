"""This package's version, and those of the packages that may change a number."""

import platform
from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    """Name to version, for the record.

    Example:
        >>> versions()["rotta"] == __version__
        True
    """
    found = {"python": platform.python_version(), "rotta": __version__}
    for package in ("torch", "numpy", "pillow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
