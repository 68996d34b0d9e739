"""The README keeps its word: its Python runs, its commands and links are there."""

import re
from pathlib import Path

import pytest

from rotta.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path))
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, namespace)
    assert re.fullmatch(r"24 batches, error \d+\.\d %\n", capsys.readouterr().out)


def test_every_command_it_names_exists() -> None:
    commands = {command.name for command in app.registered_commands}
    assert set(re.findall(r"`rotta ([a-z]+)", README)) == commands


def test_every_link_leads_somewhere() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), (page.name, link)


def test_make_has_the_two_commands() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
