"""Downloads, against a real server that can be told to misbehave."""

import hashlib
import io
import random
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

from rotta.datasets.download import Archive, download, fetch, find, missing, unpack

CONTENT = bytes(range(256)) * 12_000  # 3 MB: more than one chunk
MD5 = hashlib.md5(CONTENT).hexdigest()


@dataclass
class Behaviour:
    """What the server serves, and how well."""

    content: bytes = CONTENT
    ranges: bool = True
    cut_after: int | None = None
    requested: list[str | None] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[tuple[str, Behaviour]]:
    behaviour = Behaviour()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            behaviour.requested.append(wanted)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            if start >= len(behaviour.content):
                self.send_error(416)
                return
            partial = behaviour.ranges and wanted is not None
            body = behaviour.content[start:] if partial else behaviour.content
            self.send_response(206 if partial else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: behaviour.cut_after])

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/set.tar.gz", behaviour
        running.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_reports_progress(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    target, steps = tmp_path / "new" / "set.tar.gz", list[tuple[int, int]]()
    download(server[0], target, MD5, progress=lambda done, total: steps.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["set.tar.gz"]
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert steps[-1] == (len(CONTENT), len(CONTENT))


def test_a_cut_connection_is_continued_by_the_next_call(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    url, behaviour = server
    target = tmp_path / "set.tar.gz"
    behaviour.cut_after = 1_500_000
    with pytest.raises(ConnectionError, match=r"1,500,000 of 3,072,000") as caught:
        download(url, target, MD5)
    assert url in str(caught.value)
    assert str(target) in str(caught.value)
    assert not target.exists()
    behaviour.cut_after = None
    seen: list[int] = []
    download(url, target, MD5, progress=lambda done, _: seen.append(done))
    assert target.read_bytes() == CONTENT
    assert behaviour.requested == [None, "bytes=1500000-"]
    assert min(seen) > 1_500_000


def test_it_starts_over_where_the_server_cannot_continue(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    url, behaviour = server
    behaviour.ranges = False
    (tmp_path / "set.tar.gz.part").write_bytes(b"something else entirely")
    download(url, tmp_path / "set.tar.gz", MD5)
    assert (tmp_path / "set.tar.gz").read_bytes() == CONTENT


def test_a_part_that_is_whole_already_only_needs_its_checksum(
    server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    (tmp_path / "set.tar.gz.part").write_bytes(CONTENT)
    download(server[0], tmp_path / "set.tar.gz", MD5)
    assert (tmp_path / "set.tar.gz").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server: tuple[str, Behaviour], tmp_path: Path) -> None:
    server[1].content = CONTENT[:-1] + b"?"
    with pytest.raises(ValueError, match=f"instead of {MD5}"):
        download(server[0], tmp_path / "set.tar.gz", MD5)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_error_says_what_to_put_where(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        url = f"http://127.0.0.1:{closed.server_port}/set.tar.gz"
    target = tmp_path / "set.tar.gz"
    with pytest.raises(ConnectionError) as caught:
        download(url, target, MD5)
    assert url in str(caught.value)
    assert str(target) in str(caught.value)


def packed(members: dict[str, bytes], mode: Literal["w", "w:gz"] = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def archive(
    server: tuple[str, Behaviour], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Archive:
    monkeypatch.delenv("ROTTA_HOME", raising=False)
    monkeypatch.setenv("ROTTA_CACHE", str(tmp_path / "cache"))
    url, behaviour = server
    behaviour.content = packed({"set/a": b"first", "set/deep/b": b"second"})
    return Archive("The Set", url, hashlib.md5(behaviour.content).hexdigest(), "1 kB", "set")


def test_fetch_asks_downloads_unpacks_and_tidies(archive: Archive, tmp_path: Path) -> None:
    questions: list[str] = []

    def agree(question: str) -> bool:
        questions.append(question)
        return True

    folder = fetch(archive, agree)
    assert folder == tmp_path / "cache" / "data" / "set" == find(archive, ["a", "deep/b"])
    assert (folder / "a").read_bytes() == b"first"
    assert questions == [f"download The Set (1 kB) from {archive.url} to {folder}?"]
    assert [path.name for path in folder.parent.iterdir()] == ["set"]


def test_fetch_repairs_a_folder_that_lost_a_file(archive: Archive) -> None:
    folder = fetch(archive, lambda _: True)
    assert folder is not None
    (folder / "deep" / "b").unlink()
    assert find(archive, ["a", "deep/b"]) is None
    fetch(archive, lambda _: True)
    assert find(archive, ["a", "deep/b"]) == folder


def test_fetch_uses_an_archive_put_there_by_hand(
    archive: Archive, server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    by_hand = tmp_path / "cache" / "data" / "set.tar.gz"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(server[1].content)
    assert fetch(archive, lambda _: True) == find(archive, ["a"])
    assert server[1].requested == []


def test_nothing_is_downloaded_unasked_or_against_the_answer(
    archive: Archive, server: tuple[str, Behaviour], tmp_path: Path
) -> None:
    assert fetch(archive, None) is None
    assert fetch(archive, lambda _: False) is None
    assert server[1].requested == []
    assert not (tmp_path / "cache").exists()


def test_find_prefers_home_but_only_if_it_is_complete(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / "data" / "set"
    home.mkdir(parents=True)
    (home / "a").write_bytes(b"first")
    monkeypatch.setenv("ROTTA_HOME", str(tmp_path / "home"))
    cached = fetch(archive, lambda _: True)
    assert find(archive, ["a"]) == home
    assert find(archive, ["a", "deep/b"]) == cached


def test_missing_names_files_places_and_address(archive: Archive, tmp_path: Path) -> None:
    message = str(missing(archive, ["a", "deep/b"]))
    for part in ("a, deep/b", str(tmp_path / "cache" / "data" / "set"), archive.url, archive.md5):
        assert part in message


def test_unpack_refuses_members_that_land_outside(tmp_path: Path) -> None:
    source = tmp_path / "evil.tar.gz"
    source.write_bytes(packed({"set/a": b"fine", "../outside": b"not fine"}))
    target = tmp_path / "deep" / "set"
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack(source, target)
    assert not target.exists()
    assert not (tmp_path / "outside").exists()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_unpack_of_a_truncated_archive_leaves_no_folder(
    mode: Literal["w", "w:gz"], tmp_path: Path
) -> None:
    source = tmp_path / "half.tar"
    whole = packed({"set/a": random.Random(0).randbytes(100_000)}, mode)
    source.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        unpack(source, tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["half.tar"]


def test_unpack_says_when_it_is_the_wrong_archive(tmp_path: Path) -> None:
    source = tmp_path / "other.tar.gz"
    source.write_bytes(packed({"other/a": b"content"}))
    with pytest.raises(ValueError, match="holds no folder set"):
        unpack(source, tmp_path / "set")
