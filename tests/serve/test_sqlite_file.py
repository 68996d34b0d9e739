"""What may happen to a store's file: it is noticed, or it does not matter."""

import os
import sqlite3
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
