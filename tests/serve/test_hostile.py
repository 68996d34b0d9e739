"""What may be sent by mistake or malice: refused with a reason, and nobody else notices."""

import io
import json
import socket
import struct
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
import pytest
from live_server import LiveServer, digits, in_threads, live_server, until
from PIL import Image

from rotta.client import Client, RefusedError

RAW = "application/octet-stream"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("hostile")
    few = ("--queue-per-stream", "8", "--max-images", "8", "--max-batch", "8")
    with live_server(folder, *few, "--resident", "8", "--max-body-mb", "8") as server:
        yield server
        assert server.process.poll() is None
        assert "Traceback" not in server.log.read_text()


def post(
    server: LiveServer, body: bytes, kind: str, query: str = "", stream: str = "hostile"
) -> tuple[int, dict[str, Any]]:
    url = f"{server.url}/v1/streams/{stream}/predict{query}"
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def form(*files: bytes, field: str = "images") -> tuple[bytes, str]:
    head = f'--xyz\r\nContent-Disposition: form-data; name="{field}"; filename="a"\r\n\r\n'
    parts = [head.encode() + file + b"\r\n" for file in files]
    return b"".join([*parts, b"--xyz--\r\n"]), "multipart/form-data; boundary=xyz"


def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A few bytes that announce a large picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)


GOOD = file_of(Image.new("RGB", (32, 32)))
NAN = np.full((1, 3, 32, 32), np.nan, "<f4").tobytes()
ONE = "?shape=1,3,32,32&dtype="

REFUSED: dict[str, tuple[tuple[bytes, str], str, int, str]] = {
    "no body": ((b"", RAW), "", 422, "say the type"),
    "no shape": ((b"abc", RAW), "?dtype=uint8", 422, "say the shape"),
    "other size": ((bytes(3 * 64), RAW), "?shape=1,3,8,8&dtype=uint8", 422, "3,32,32"),
    "other dtype": ((b"abc", RAW), f"{ONE}float64", 422, "uint8, float32"),
    "too short": ((b"abc", RAW), f"{ONE}uint8", 422, "3072 bytes, not 3"),
    "NaN": ((NAN, RAW), f"{ONE}float32", 422, "finite"),
    "huge shape": ((b"abc", RAW), "?shape=999999999,3,32,32&dtype=uint8", 413, "8 images"),
    "negative shape": ((b"abc", RAW), "?shape=-1,3,32,32&dtype=uint8", 422, "say the shape"),
    "JSON": ((b"{}", "application/json"), "", 415, "multipart/form-data"),
    "no kind": ((b"", "nonsense"), "", 415, "octet-stream"),
    "no boundary": ((b"abc", "multipart/form-data"), "", 400, "cannot be read"),
    "no form": ((b"abc", "multipart/form-data; boundary=xyz"), "", 400, "cannot be read"),
    "empty form": (form(), "", 422, "field 'images'"),
    "other field": (form(GOOD, field="picture"), "", 422, "field 'images'"),
    "too many": (form(*[GOOD] * 9), "", 413, "8 images"),
    "text": (form(b"hello"), "", 415, "image 1 is neither PNG nor JPEG"),
    "GIF": (form(GOOD, file_of(Image.new("L", (9, 9)), "GIF")), "", 415, "image 2"),
    "empty file": (form(b""), "", 415, "neither PNG nor JPEG"),
    "cut off": (form(file_of(Image.effect_noise((64, 64), 9))[:-900]), "", 422, "damaged"),
    "bomb": (form(png_claiming(60_000, 60_000)), "", 413, "25,000,000 pixels"),
    "just too large": (form(png_claiming(5001, 5000)), "", 413, "25,000,000 pixels"),
    "top": ((bytes(3072), RAW), f"{ONE}uint8&top=0", 422, "top"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(server: LiveServer, name: str) -> None:
    (body, kind), query, status, says = REFUSED[name]
    got, answer = post(server, body, kind, query)
    assert (got, answer["status"]) == (status, status)
    assert says in answer["error"]
    assert "hostile" not in server.client().streams()  # nothing has begun


def test_fifty_megabytes(server: LiveServer) -> None:
    body, kind = form(b"\xff" * 50_000_000)
    got, answer = post(server, body, kind)
    assert got == 413
    assert "8,388,608 bytes" in answer["error"]


def test_fifty_megabytes_that_were_not_announced(server: LiveServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as line:
        line.sendall(
            b"POST /v1/streams/hostile/predict HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(10):
            line.sendall(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
        line.sendall(b"0\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 413")


def test_a_client_that_leaves_in_the_middle(server: LiveServer) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for _ in range(5):
        with socket.create_connection((host, int(port))) as line:
            line.sendall(
                b"POST /v1/streams/left/predict HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/octet-stream\r\nContent-Length: 3072\r\n\r\n"
            )
            line.sendall(bytes(1000))
    until(lambda: metric(server, 'rotta_requests_total{route="predict",status="499"}') == 5)
    assert metric(server, "rotta_upload_bytes") == 0
    assert "left" not in server.client().streams()


def test_pages_of_other_sites_are_kept_out(server: LiveServer) -> None:
    hosts = ("evil.example", "127.0.0.1.evil.example", "[", "[::2]:80", "")
    site = {"Sec-Fetch-Site": "cross-site"}
    origins = ("https://evil.example", "null", "http://127.0.0.1:1", "http://[", "")
    headers = [site, *({"Host": host} for host in hosts), *({"Origin": each} for each in origins)]
    for header in headers:
        request = urllib.request.Request(f"{server.url}/v1/streams", headers=header)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 403
        refused.value.close()
    request = urllib.request.Request(f"{server.url}/v1/streams", headers={"Origin": server.url})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_a_flood_on_one_stream_does_not_reach_the_others(
    server: LiveServer, record_property: Callable[[str, object], None]
) -> None:
    answered: list[int] = []
    patient: list[int] = []
    latencies: list[float] = []
    eight, one = digits(8), digits(1)

    def flood() -> None:
        client = server.client()
        for _ in range(4):
            try:
                client.predict("flooded", eight)
                answered.append(200)
            except RefusedError as error:
                answered.append(error.status)

    def other(name: str) -> Callable[[], None]:
        def ask() -> None:
            client = server.client()
            for _ in range(8):
                latencies.append(client.predict(name, one).latency_ms)

        return ask

    def waiting() -> None:
        patient.extend(server.client(patience=60).predict("flooded", eight).classes)

    wrong = in_threads([flood] * 8 + [other(f"calm-{n}") for n in range(3)] + [waiting])
    assert not wrong
    assert set(answered) == {200, 429}
    assert len(latencies) == 24
    assert len(patient) == 8  # Retry-After was kept to
    record_property("median latency of the others, ms", median(latencies))


def metric(server: LiveServer, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)), 0.0)


def test_the_server_is_as_well_as_before(server: LiveServer) -> None:
    client: Client = server.client()
    assert client.health()["status"] == "ok"
    assert client.predict("after", digits(1)).counters.requests == 1
