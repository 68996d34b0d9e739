"""The one-way flow: who may import whom, and what may not be imported at all at the start."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rotta

PACKAGE = Path(rotta.__file__).parent

FORBIDDEN = {
    "corruptions": {"datasets", "streams", "models", "adapters", "metrics", "results", "report"},
    "datasets": {"streams", "models", "adapters", "metrics", "results", "report", "evaluate"},
    "models": {"streams", "adapters", "metrics", "results", "report", "evaluate"},
    "streams": {"models", "adapters", "metrics", "results", "report", "evaluate"},
    "nn": {"streams", "datasets", "models", "adapters", "memory", "metrics", "results", "report"},
    "memory": {"streams", "datasets", "models", "adapters", "nn", "metrics", "results", "report"},
    "adapters": {"streams", "datasets", "metrics", "results", "report", "evaluate"},
    "metrics": {"adapters", "report", "results"},
    "results": {"adapters", "streams", "report"},
    "report": {"adapters", "streams", "datasets", "models", "evaluate"},
    "pool": {"streams", "datasets", "metrics", "results", "report", "evaluate", "serve"},
    "client": {"adapters", "streams", "datasets", "models", "pool", "results", "report"},
}


def imports(file: Path) -> Iterator[str]:
    """The parts of this package that a file imports: ``datasets``, ``streams``, …"""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rotta."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "rotta":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("rotta."))


def files_of(part: str) -> list[Path]:
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


@pytest.mark.parametrize("part", FORBIDDEN)
def test_a_part_imports_only_what_lies_before_it(part: str) -> None:
    for file in files_of(part):
        assert not FORBIDDEN[part] & set(imports(file)), file.name


def test_nothing_imports_the_command_line() -> None:
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name != "cli" and file.name != "__main__.py":
            assert "cli" not in set(imports(file)), file


def test_one_order_is_stated_in_two_layers_and_is_one() -> None:
    from rotta.datasets import DOMAIN_ORDER
    from rotta.streams import PAPER_ORDER

    assert DOMAIN_ORDER == PAPER_ORDER


def test_the_library_starts_without_the_command_lines_packages() -> None:
    heavy = ["typer", "rich", "sklearn", "matplotlib", "jinja2", "torchvision", "timm"]
    code = f"import sys, rotta; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
