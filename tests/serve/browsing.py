"""A real browser that notes what goes wrong, and a service with streams at work to look at."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from live_server import PATIENCE, digits
from playwright.sync_api import Browser, Page, expect, sync_playwright
from torch import Tensor

from rotta.client import Client
from rotta.serve import Service, load_model

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path")

expect.set_options(timeout=20_000)


@contextmanager
def chromium() -> Iterator[Browser]:
    assert CHROMIUM is not None
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def visit(
    browser: Browser, url: str, *, expected: tuple[str, ...] = (), **how: Any
) -> Iterator[Page]:
    """A page of its own; the test fails if it complains or asks another host for anything."""
    context = browser.new_context(**how)
    context.set_default_timeout(1000 * PATIENCE)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    yield page
    context.close()
    complaints = [words for words in said if not any(each in words for each in expected)]
    assert not complaints, complaints
    host = url.partition("#")[0].rstrip("/")
    elsewhere = [each for each in asked if not each.startswith((host, "data:"))]
    assert not elsewhere, elsewhere


def new_service(folder: Path, **options: Any) -> Service:
    return Service(load_model("digits"), store=folder / "state.sqlite", **options)


def feed(service: Service, stream: str, images: Tensor) -> None:
    service.worker.predict(stream, images).result(PATIENCE)


def put_to_work(service: Service, url: str) -> None:
    """A few streams; ``yard`` is frozen, ``wall`` shows noise, and the guard has rolled
    ``poisoned`` back.

    A thousand times as fast a learner as by default goes too far within some 40 requests.
    """
    for stream in ("gate-0", "gate-1", "gate-2", "yard"):
        for start in (0, 30, 60):
            feed(service, stream, digits(30, start))
    Client(url).freeze("yard")
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        feed(service, "wall", torch.rand(16, 3, 32, 32, generator=generator))
    for _ in range(200):
        spots = torch.rand(16, 3, 8, 8, generator=generator)
        feed(service, "poisoned", F.interpolate(spots, scale_factor=4, mode="bilinear"))
        if is_in_trouble(service, "poisoned"):
            return
    raise AssertionError("the guard does not mind")


def is_in_trouble(service: Service, stream: str) -> bool:
    standings = service.worker.history.standings.all()
    return any(each.in_trouble for each in standings if each.stream == stream)
