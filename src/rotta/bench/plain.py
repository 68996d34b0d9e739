"""The plain implementation, which lies in the repository and not in the package."""

import importlib.util
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[3] / "benchmarks" / "plain_rotta.py"


def find_plain(file: Path = FILE) -> Any | None:
    """The class `PlainRoTTA`; none where the package was installed without the repository.

    Example:
        >>> find_plain(Path("nowhere")) is None
        True
    """
    if not file.is_file():
        return None
    spec = importlib.util.spec_from_file_location("plain_rotta", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PlainRoTTA
