"""Kernels in C for CPUs, compiled when the package is installed: :func:`library`.

There is one library for each level of x86-64, of which the best that this processor runs is taken;
other processors have one. Without a compiler none is built, and PyTorch's kernels do everything.
"""

import ctypes
import os
import zlib
from functools import cache
from pathlib import Path
from sysconfig import get_config_var

import torch

_LEVELS = {"AVX512": ("_v4", "_v3", ""), "AVX2": ("_v3", "")}
"""Of PyTorch's word for what a processor can do: the libraries that it runs, the fastest first."""

_SOURCES = ("norms.c", "channel_block.h")

_P, _L, _I, _F = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_SIGNATURES = {
    "rotta_moments": (_P, _L, _L, _L, _P, _P, _I),
    "rotta_pooled_moments": (_P, _P, _L, _L, _L, _P, _P, _I),
    "rotta_normalise": (_P, _P, _L, _L, _L, _P, _P, _P, _P, _F, _I, _I),
    "rotta_scale_and_shift": (_P, _P, _L, _L, _L, _P, _P, _I, _I, _I),
    "rotta_gradient_sums": (_P, _P, _L, _L, _L, _P, _P, _P, _I, _I, _P, _P, _I),
    "rotta_gradient": (_P, _P, _P, _L, _L, _L, _P, _P, _P, _P, _I, _I, _I),
}


@cache
def library() -> ctypes.CDLL | None:
    """The kernels for this processor; none where they were not built, or ``ROTTA_NATIVE=0``."""
    if os.environ.get("ROTTA_NATIVE") == "0":
        return None
    names = runnable(torch.backends.cpu.get_cpu_capability())
    found = (opened(Path(__file__).with_name(name)) for name in names)
    return next((each for each in found if each is not None), None)


def runnable(capability: str) -> list[str]:
    """Names of the libraries that a processor runs, the fastest first.

    Args:
        capability: PyTorch's word for what it can do.

    Example:
        >>> [name.split(".")[0] for name in runnable("AVX2")]
        ['kernels_v3', 'kernels']
    """
    suffix = get_config_var("EXT_SUFFIX")
    return [f"kernels{level}{suffix}" for level in _LEVELS.get(capability, ("",))]


def opened(file: Path) -> ctypes.CDLL | None:
    """The library in a file; none if there is none, for this system and of the sources here."""
    if not file.exists():
        return None
    try:
        found = ctypes.CDLL(str(file))  # after torch, whose OpenMP it then shares
        found.rotta_sources.restype = ctypes.c_uint
        if found.rotta_sources() != checksum_of_sources():
            return None
        for name, signature in _SIGNATURES.items():
            function = getattr(found, name)
            function.argtypes, function.restype = signature, None
    except (OSError, AttributeError):
        return None
    return found


def checksum_of_sources() -> int:
    """As setup.py gives it to the compiler."""
    here = Path(__file__).parent
    return zlib.crc32(b"".join((here / name).read_bytes() for name in _SOURCES))


def level() -> str:
    """Which kernels compute here, for the record: ``x86-64-v4``, say, ``generic`` or ``none``."""
    found = library()
    if found is None:
        return "none"
    suffix = Path(found._name).name.removeprefix("kernels").split(".")[0]
    return f"x86-64{suffix.replace('_', '-')}" if suffix else "generic"
