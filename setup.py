"""Kernels in C for CPUs: all else is in pyproject.toml, whose word for these is experimental.

They are optional: without a C compiler that knows OpenMP, PyTorch's own kernels serve.
"""

import platform

from setuptools import Extension, setup

SOURCES = "src/rotta/nn/native"
ON_X86_64 = platform.machine().lower() in ("x86_64", "amd64")
LEVELS = {"kernels_v4": "x86-64-v4", "kernels_v3": "x86-64-v3"} if ON_X86_64 else {}


def kernels(name: str, *options: str) -> Extension:
    """A library, of which rotta.nn.native takes the best that the processor runs."""
    return Extension(
        f"rotta.nn.native.{name}",
        [f"{SOURCES}/norms.c"],
        depends=[f"{SOURCES}/channel_block.h"],
        extra_compile_args=["-O3", "-fopenmp", *options],
        extra_link_args=["-fopenmp"],
        optional=True,
    )


setup(
    ext_modules=[
        kernels("kernels"),
        *(kernels(name, f"-march={level}") for name, level in LEVELS.items()),
    ]
)
