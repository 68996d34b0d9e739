"""Files that are either complete or not there, and the two folders."""

import os
import stat
import time
from pathlib import Path

import pytest

from rotta import folders
from rotta.atomic import check_writable, clear_away, replacing
from rotta.state_file import write_state


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


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    with replacing(path) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody reads along meanwhile
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


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


def test_links_that_lead_in_a_circle_are_told(tmp_path: Path) -> None:
    """By an error for files, whichever Python has."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="a"), replacing(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_symlink()


def test_what_was_broken_off_long_ago_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    left, fresh = (tmp_path / f".a.safetensors.0123456{n}.safetensors" for n in (7, 8))
    others = [tmp_path / name for name in ("b", ".a.safetensors.backup", ".a.safetensors.0123")]
    an_hour_ago = time.time() - 3601
    for file in (left, fresh, *others):
        file.write_text("half")
        if file is not fresh:
            os.utime(file, (an_hour_ago, an_hour_ago))
    write_state(path, "example", {"seen": 3})
    assert set(tmp_path.iterdir()) == {path, fresh, *others}


LONG_NAMES = ("l" * 243 + ".safetensors", "l" * 255, "a." + "s" * 253, "é" * 127, "l" * 240 + ".é")


@pytest.mark.parametrize("name", LONG_NAMES)
def test_names_as_long_as_the_system_allows_can_be_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    check_writable(path)
    for content in ("old", "new"):
        with replacing(path) as temporary:
            assert temporary.name.endswith(path.suffix) or len(path.suffix) > 100
            temporary.write_text(content)
    assert path.read_text() == "new"
    with replacing(path) as left:
        left.write_text("newer")
    left.write_text("half")  # as if another process had died over it
    os.utime(left, (1, 1))
    clear_away(path)
    assert list(tmp_path.iterdir()) == [path]


def test_names_that_are_too_long_are_refused_before_the_work(tmp_path: Path) -> None:
    path = tmp_path / ("l" * 256)
    with pytest.raises(OSError, match="give another place"):
        check_writable(path)
    with pytest.raises(OSError, match="too long"), replacing(path):
        pass
    assert list(tmp_path.iterdir()) == []
