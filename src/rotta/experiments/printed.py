"""The paper's tables, as printed; and what others have printed of its method."""

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def printed(table: str) -> dict[str, Any]:
    """A table by name; ``printed.json`` shows what there is.

    Example:
        >>> printed("cifar10-c")["rotta"]["average"]
        25.2
    """
    text = files("rotta.experiments").joinpath("printed.json").read_text(encoding="utf-8")
    table_of: dict[str, dict[str, Any]] = json.loads(text)
    return table_of[table]
