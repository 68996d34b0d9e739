"""Whether the kernels for CPUs are there at all, where they can be."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rotta.nn import native


def test_they_were_compiled_where_there_is_a_compiler(tmp_path: Path) -> None:
    """Otherwise their tests would be skipped, and nobody would see it."""
    compiler = shutil.which("cc")
    (tmp_path / "any.c").write_text("int main(void) { return 0; }")
    command = [str(compiler), "-fopenmp", "any.c", "-o", "any"]
    if compiler is None or subprocess.run(command, cwd=tmp_path, check=False).returncode:
        pytest.skip("needs a C compiler that knows OpenMP")
    if os.environ.get("ROTTA_NATIVE") == "0":
        pytest.skip("ROTTA_NATIVE=0")
    assert native.level() != "none", "install rotta anew: `make test` does"
