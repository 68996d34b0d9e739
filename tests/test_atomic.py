"""Files that are either complete or not there, and the two folders."""

import os
from pathlib import Path

import pytest

from rotta import folders
from rotta.atomic import replacing


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "weights.bin"
    with replacing(path) as temporary:
        temporary.write_text("old")

    def fail_halfway() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="full"):
        fail_halfway()
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["weights.bin"]


def test_a_new_file_gets_ordinary_permissions(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_home_comes_before_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    assert folders.find("data/x") is None
    (tmp_path / "cache" / "data" / "x").mkdir(parents=True)
    assert folders.find("data/x") == tmp_path / "cache" / "data" / "x"
    (tmp_path / "home" / "data" / "x").mkdir(parents=True)
    assert folders.find("data/x") == tmp_path / "home" / "data" / "x"


def test_without_variables_the_users_cache_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.delenv("ROTTA_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert folders.home() is None
    assert folders.cache() == Path("/somewhere/rotta")
    assert folders.places("models/a") == [Path("/somewhere/rotta/models/a")]


def test_what_a_link_points_to_is_replaced_and_what_is_no_file_stays(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not an ordinary file"), replacing(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()
