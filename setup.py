"""Kernels in C for CPUs: all else is in pyproject.toml, whose word for these is experimental.

They are optional: without a C compiler that knows OpenMP, PyTorch's own kernels serve.
"""

import zlib
from pathlib import Path
from sysconfig import get_platform

from setuptools import Extension, setup

SOURCES = [f"src/rotta/nn/native/{name}" for name in ("norms.c", "channel_block.h")]
CHECKSUM = zlib.crc32(b"".join(Path(file).read_bytes() for file in SOURCES))
V3 = ["-mavx2", "-mfma"]  # older compilers do not know -march=x86-64-v3
V4 = [*V3, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
LEVELS = {"kernels_v4": V4, "kernels_v3": V3} if get_platform().endswith("x86_64") else {}


def kernels(name: str, *options: str) -> Extension:
    """A library, of which rotta.nn.native takes the best that the processor runs."""
    return Extension(
        f"rotta.nn.native.{name}",
        SOURCES[:1],
        depends=[*SOURCES[1:], __file__],
        define_macros=[("ROTTA_SOURCES", f"{CHECKSUM}u")],
        extra_compile_args=["-O3", "-fopenmp", *options],
        extra_link_args=["-fopenmp"],
        libraries=["m"],
        optional=True,
    )


levels = [kernels(name, *options) for name, options in LEVELS.items()]
setup(ext_modules=[] if get_platform().startswith("win") else [kernels("kernels"), *levels])
