"""What may happen to a store's file: it is noticed, or it does not matter."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_server import until

from rotta.pool import StoreError
from rotta.serve.stores import WriteBehind, open_store

NOBODY = 65534


@pytest.mark.parametrize("end", ["", "-wal", ".lock"])
def test_a_file_that_is_taken_away_and_brought_back(tmp_path: Path, end: str) -> None:
    behind = WriteBehind(open_store(tmp_path / "state.sqlite"), first_wait=0.01, longest_wait=0.02)
    behind.put("a", b"1")
    assert behind.flush(60)
    file = tmp_path / f"state.sqlite{end}"
    file.rename(tmp_path / "elsewhere")
    behind.put("a", b"2")
    until(lambda: "removed or replaced" in (behind.saving.problem or ""))
    file.touch()  # another one by that name does not do
    failures = behind.saving.failures
    until(lambda: behind.saving.failures > failures + 1)
    assert behind.saving.waiting == 1
    (tmp_path / "elsewhere").rename(file)
    assert behind.close(60)
    store = open_store(tmp_path / "state.sqlite")
    assert store.get("a") == b"2"
    store.close()


def test_a_file_is_the_same_by_every_name(tmp_path: Path) -> None:
    first = open_store(tmp_path / "state.sqlite")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.sqlite"
    link.symlink_to(tmp_path / "state.sqlite")
    for name in (link, tmp_path / "folder" / ".." / "state.sqlite"):
        with pytest.raises(ValueError, match="in use by another server"):
            open_store(name)
    first.close()


def test_a_hard_link_is_the_same_file_too(tmp_path: Path) -> None:
    store, link = tmp_path / "state.sqlite", tmp_path / "link.sqlite"
    first = open_store(store)
    first.put("a", b"1")
    link.hardlink_to(store)
    for opened in (opened_elsewhere, open_store):
        with pytest.raises(ValueError, match=r"link\.sqlite is in use .* stop that one"):
            opened(link)
    assert not (tmp_path / "link.sqlite-wal").exists()  # SQLite was not even asked
    assert said("print(*database.execute('SELECT * FROM streams'))", store) == "('a', b'1')\n"
    assert (tmp_path / "state.sqlite-wal").exists()  # that one knew that it was not the last
    first.put("a", b"2")
    first.close()
    second = open_store(link)  # now it is free
    assert second.get("a") == b"2"
    second.close()


def opened_elsewhere(file: Path) -> None:
    """By a process of its own, which lets go of it when it ends."""
    code = """
from rotta.serve.stores import open_store
try:
    open_store(sys.argv[1])
except ValueError as error:
    print(error)
"""
    if error := said(code, file):
        raise ValueError(error)


def said(code: str, file: Path) -> str:
    """By another process, with SQLite on a file."""
    begin = "import sqlite3, sys\ndatabase = sqlite3.connect(sys.argv[1])\n"
    words = [sys.executable, "-c", begin + code, str(file)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_reading_does_not_wait_for_writing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.sqlite")
    store.put("a", b"1")
    other = sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # as a program for copies may do
    write = threading.Thread(target=lambda: store.put("a", b"2"))
    write.start()
    assert store.get("a") == b"1"
    assert store.names() == ["a"]
    assert write.is_alive()  # it waits for the other, and nobody for it
    other.execute("ROLLBACK")
    other.close()
    write.join()
    assert store.get("a") == b"2"
    store.close()


def test_a_file_that_cannot_be_written_is_refused_at_the_start() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name), Path(name) / "state.sqlite"
        open_store(file).close()
        folder.chmod(0o777)
        (folder / "state.sqlite.lock").chmod(0o666)
        file.chmod(0o444)
        with as_nobody(), pytest.raises(StoreError, match="readonly database"):
            open_store(file)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, if the tests have them."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
