"""What is sent for the page, and the overview that it asks for, without a browser."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_server import PATIENCE, digits, until

import rotta.serve.page as page
from rotta.client import Client
from rotta.pool import StoreError
from rotta.serve import Service, load_model, serving
from rotta.serve.stores.sqlite_file import SQLiteStore


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Streams ``a`` to ``e``; the last two were not used since the server was started."""
    store = tmp_path_factory.mktemp("parts") / "state.sqlite"
    with serving(Service(load_model("digits"), store=store)) as url:
        for stream in "de":
            Client(url).predict(stream, digits(1))
    with serving(Service(load_model("digits"), store=store)) as url:
        for count, stream in enumerate("cba", start=1):
            Client(url).predict(stream, digits(5 * count))
        Client(url).freeze("b")
        yield url


def overview(url: str, words: str = "") -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}/v1/overview?{words}") as answer:
        body: dict[str, Any] = json.load(answer)
        return body


def names(url: str, words: str = "") -> str:
    return "".join(each["stream"] for each in overview(url, words)["streams"])


def test_the_page_needs_no_token_and_its_data_does(tmp_path: Path) -> None:
    service = Service(load_model("digits"), store=tmp_path / "state.sqlite", token="secret")
    with serving(service) as url:
        for path in ("/", *(f"/page/{name}" for name in page.PARTS)):
            with urllib.request.urlopen(url + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy
        for path, status in (("/v1/overview", 401), ("/page/__init__.py", 404), ("/page/..", 404)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(url + path)
            assert refused.value.code == status


def test_the_page_holds_together_and_asks_nobody_else() -> None:
    texts = {name: file.read_text() for name, (file, _) in page.PARTS.items()}
    document = page.PAGE.read_text()
    wanted = re.findall(r'(?:src|href)="page/([^"]+)"', document)
    for text in texts.values():
        wanted += re.findall(r'from "\./([^"]+)"', text)
        assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert set(wanted) == set(texts)
    assert "://" not in document
    assert not re.search(r"<script>|<style|style=|\son\w+=", document)
    for template in ("overview", "stream", "token"):
        assert f'<template id="{template}">' in document


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", "abcde"),
        ("sort=stream&descending=true", "cbade"),
        ("sort=classes", "cbade"),
        ("sort=used&descending=true", "abcde"),
        ("limit=2&offset=2", "cd"),
        ("limit=2&offset=4", "e"),
        ("offset=9", ""),
        ("part=d", "d"),
        ("only=frozen", "b"),
        ("only=trouble", ""),
    ],
)
def test_streams_are_chosen_and_sorted(url: str, words: str, found: str) -> None:
    assert names(url, words) == found


def test_an_overview_tells_how_all_are(url: str) -> None:
    all_of_it = overview(url, "limit=1")
    assert all_of_it["health"] == {"status": "ok", "reason": None}
    assert (all_of_it["matching"], all_of_it["totals"]["known"]) == (5, 5)
    assert all_of_it["totals"]["frozen"] == 1
    assert all_of_it["totals"]["requests_per_second"] > 0
    assert 0 < all_of_it["totals"]["latency_p50_ms"] <= all_of_it["totals"]["latency_p99_ms"]
    first = all_of_it["streams"][0]
    assert (first["stream"], first["state"], first["frozen"]) == ("a", "well", False)
    assert [value for value in first["curves"]["entropy"] if value is not None]
    unused = overview(url, "part=e")["streams"]
    assert unused == [{"stream": "e", "state": "unused"}]


def test_a_server_that_cannot_save_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space left")

    service = Service(load_model("digits"), store=tmp_path / "state.sqlite")
    with serving(service) as url:
        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, "write", full)
            Client(url).predict("a", digits(1))
            until(lambda: overview(url)["health"]["status"] == "degraded")
            reason = overview(url)["health"]["reason"]
            told = r"streams cannot be saved \(no space left\): \d+ streams are newer in memory"
            assert re.match(told, reason)
        until(lambda: overview(url)["health"]["status"] == "ok")


def test_confidences_and_drift_are_remembered(tmp_path: Path) -> None:
    store = tmp_path / "state.sqlite"
    service = Service(load_model("digits"), store=store, capacity=8, update_every=8)
    with serving(service) as url:
        answer = Client(url).predict("a", digits(8))
        until(lambda: Client(url).info("a").updates == 1)
        with urllib.request.urlopen(f"{url}/v1/streams/a/inputs", timeout=PATIENCE) as inputs:
            shown = [each["confidence"] for each in json.load(inputs)["inputs"]]
        assert shown == pytest.approx([each[0].probability for each in answer.top], abs=1e-4)
        with urllib.request.urlopen(f"{url}/v1/streams/a/history", timeout=PATIENCE) as history:
            drift = json.load(history)["drift"]
        assert drift[-1]["statistics"] == pytest.approx(Client(url).info("a").statistics_distance)
        Client(url).reset("a")
        with urllib.request.urlopen(f"{url}/v1/streams/a/bank", timeout=PATIENCE) as bank:
            assert json.load(bank)["held"] == []
