"""Everything that a server can be asked, on a real one."""

import base64
import io
import json
import socket
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from live_server import LiveServer, digits, live_server, until
from PIL import Image
from torch import Tensor

import rotta
from rotta.client import Client, Images, RefusedError
from rotta.serve.server import listen


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("serve")
    method = ("--method", "rotta:capacity=16:update_every=16")
    with live_server(folder, *method, "--save-every", "2", token="secret") as server:
        yield server
        assert server.end() == 0
        assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Client:
    return server.client()


def get(server: LiveServer, path: str) -> str:
    headers = {"Authorization": "Bearer secret"}
    request = urllib.request.Request(f"{server.url}{path}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
        return text


def picture(pixels: Tensor) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(pixels.numpy().transpose(1, 2, 0)))


def test_the_first_prediction_is_the_source_models(client: Client) -> None:
    images = digits(6)
    expected = rotta.load_source("digits")(images / 255).softmax(dim=1)
    answer = client.predict("first", images, top=10)
    assert answer.classes == expected.argmax(dim=1).tolist()
    for ranked, row in zip(answer.top, expected, strict=True):
        assert [each.number for each in ranked] == row.argsort(descending=True).tolist()
        given = torch.tensor([each.probability for each in ranked])
        assert torch.allclose(given, row.sort(descending=True).values, atol=1e-4)
    assert ranked[0].label == str(ranked[0].number)


def test_files_arrays_and_tensors_are_the_same_images(client: Client) -> None:
    images = digits(3)
    forms: dict[str, Images] = {
        "uint8": images,
        "float": images / 255,
        "array": images.numpy(),
        "files": [picture(each) for each in images],
    }
    tops = {name: client.predict(name, form, top=3).top for name, form in forms.items()}
    flat = {
        name: torch.tensor([[each.probability for each in ranked] for ranked in top])
        for name, top in tops.items()
    }
    for name in forms:
        assert torch.allclose(flat[name], flat["uint8"], atol=1e-5), name


def test_a_stream_learns_and_tells_how_far_it_is(client: Client) -> None:
    for number in range(9):
        answer = client.predict("learns", digits(4, start=4 * number))
        assert answer.counters.requests == number + 1
        assert answer.counters.samples == 4 * (number + 1)
        assert answer.counters.updates == 4 * number // 16  # from before this request
    info = client.info("learns")
    assert (info.requests, info.samples, info.updates) == (9, 36, 2)
    assert sum(info.bank_by_class) == len(info.bank_ages) <= 16
    assert info.statistics_distance
    assert info.resident
    until(lambda: client.info("learns").saved_as_of is not None)


def test_freeze_reset_and_delete(client: Client) -> None:
    client.predict("changes", digits(16))
    assert client.freeze("changes").frozen
    assert client.predict("changes", digits(16)).counters.frozen
    assert client.info("changes").samples == 16
    assert not client.freeze("changes", False).frozen
    assert client.predict("changes", digits(16)).counters.samples == 32
    assert client.reset("changes").samples == 0
    assert client.predict("changes", digits(2)).counters.samples == 2
    client.delete("changes")
    assert "changes" not in client.streams()
    for ask in (client.info, client.reset, client.freeze, client.delete):
        with pytest.raises(RefusedError, match="there is no stream changes") as refused:
            ask("changes")
        assert refused.value.status == 404


def test_streams_come_in_pages(server: LiveServer, client: Client) -> None:
    for number in range(5):
        client.predict(f"page-{number}", digits(1))
    names = client.streams()
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = json.loads(get(server, f"/v1/streams?limit=2&after={after}"))
        assert len(page["streams"]) <= 2
        assert page["total"] == len(names)
        seen += [each["stream"] for each in page["streams"]]
        after = page["next"]
    assert seen == names == sorted(names)
    assert page["streams"][-1]["last"] is None or page["streams"][-1]["last"]["images"] >= 1


def test_what_a_page_needs(server: LiveServer, client: Client) -> None:
    images = digits(20)
    for start in (0, 10):
        client.predict("looked-at", images[start : start + 10])
    history = json.loads(get(server, "/v1/streams/looked-at/history"))
    assert [moment["images"] for moment in history["moments"]] == [10, 10]
    assert all(sum(moment["classes"].values()) == 10 for moment in history["moments"])
    assert history["images_per_second"] > 0
    inputs = json.loads(get(server, "/v1/streams/looked-at/inputs"))["inputs"]
    assert len(inputs) == 16
    shown = Image.open(io.BytesIO(base64.b64decode(inputs[-1]["image"].partition(",")[2])))
    assert np.array_equal(np.asarray(shown), np.asarray(picture(images[-1])))
    held = json.loads(get(server, "/v1/streams/looked-at/bank"))["held"]
    ages = sorted(each["age"] for each in held)
    assert ages == sorted(client.info("looked-at").bank_ages)
    assert all(each["image"].startswith("data:image/png;base64,") for each in held)


def test_metrics_and_health(server: LiveServer, client: Client) -> None:
    client.predict("counted", digits(16))
    streams = client.streams()  # after the turn, which goes on when the answer is here
    text = get(server, "/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert float(values['rotta_requests_total{route="predict",status="200"}']) >= 1
    assert float(values["rotta_updates_total"]) >= 1
    assert float(values["rotta_batch_images_sum"]) >= 16
    assert float(values["rotta_streams_known"]) == len(streams)
    assert float(values["rotta_streams_resident"]) >= 1
    assert float(values["rotta_save_failures_total"]) == 0
    assert float(values["rotta_last_save_age_seconds"]) >= 0
    for name in ("rotta_queue_images", "rotta_guard_alarms_total", "rotta_request_seconds_count"):
        assert name in text
    health = client.health()
    assert (health["status"], health["saving"]) == ("ok", "ok")


def test_the_token_opens_all_but_health(server: LiveServer) -> None:
    for token in (None, "", "wrong", "secret2", "sécret"):
        stranger = Client(server.url, token=token.encode().decode("latin-1") if token else token)
        assert stranger.health()["status"] == "ok"
        for ask in (stranger.info, stranger.delete, partial(stranger.predict, images=digits(1))):
            with pytest.raises(RefusedError, match="Authorization: Bearer") as refused:
                ask("learns")
            assert refused.value.status == 401


@pytest.mark.parametrize("name", ["", ".", "..", "-a", "a b", "caméra", "x" * 65, "a\n"])
def test_a_stream_cannot_be_called_anything(client: Client, name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        client.predict(name, digits(1))
    assert refused.value.status in (404, 405, 422)  # some are no part of an address at all


def test_the_model_says_what_it_is(server: LiveServer) -> None:
    model = json.loads(get(server, "/v1/model"))
    assert (model["model"], model["image_size"], len(model["classes"])) == ("digits", 32, 10)


def test_a_client_wants_an_address() -> None:
    with pytest.raises(ValueError, match="give one like http://127"):
        Client("localhost:8000")
    with pytest.raises(ConnectionError, match="no answer"):
        Client("http://127.0.0.1:1").streams()


@pytest.mark.parametrize("images", [[], picture(digits(1)[0]), None, [digits(1)]])
def test_what_is_no_image_is_not_sent(client: Client, images: Any) -> None:
    with pytest.raises(ValueError, match="a list of at least one Pillow image"):
        client.predict("a", images)


def test_pictures_in_colours_that_png_does_not_have(client: Client) -> None:
    rgb = picture(digits(1)[0])
    for mode in ("CMYK", "YCbCr", "HSV", "F"):
        there, here = (
            client.predict(f"in-{mode}-{number}", [image]).top[0]
            for number, image in enumerate((rgb.convert(mode), rgb.convert(mode).convert("RGB")))
        )
        assert there == here


def test_a_name_that_cannot_be_is_told_what_can(client: Client) -> None:
    with pytest.raises(RefusedError, match="'-x' cannot name a stream: use a letter or a digit"):
        client.info("-x")


def test_load_balancers_may_ask_for_the_head_alone(server: LiveServer) -> None:
    request = urllib.request.Request(f"{server.url}/healthz", method="HEAD")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
        assert answer.read() == b""


def test_answers_do_not_wait_for_what_clients_acknowledge_late() -> None:
    with (
        listen("127.0.0.1", 0, token=None) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
