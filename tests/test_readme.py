"""The README keeps its word: its Python runs, its commands and links are there."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from rotta.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_the_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    namespace: dict[str, object] = {}
    blocks = python_blocks(README)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, namespace)
    assert re.fullmatch(r"24 batches, error \d+\.\d %\n", capsys.readouterr().out)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_python_of_the_docs_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    namespace: dict[str, object] = {}
    for block in python_blocks(page.read_text(encoding="utf-8")):
        exec(block, namespace)


def test_every_command_it_names_exists() -> None:
    commands = {command.name for command in app.registered_commands}
    assert set(re.findall(r"`rotta ([a-z]+)", README)) == commands


def test_every_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), (page.name, link)


def test_every_table_is_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "write_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.filled(text) == text, f"run benchmarks/write_tables.py for {page.name}"


def test_the_shown_output_is_of_the_stored_run() -> None:
    run = json.loads((ROOT / "benchmarks" / "results" / "methods-digits-c.json").read_text())
    shown = re.findall(r"^ (motion|snow|fog|average) +(.*)$", README, flags=re.MULTILINE)
    assert len(shown) == 4
    for name, errors in shown:
        for method, error in zip(run["methods"].values(), errors.split(), strict=True):
            stored = method["seeds"]["0"]
            by_name = {domain.split("_")[0]: e for domain, e in stored["per_domain"].items()}
            expected = (by_name | {"average": stored["average_error"]})[name]
            assert float(error) == pytest.approx(expected, abs=0.05)


def test_make_has_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
