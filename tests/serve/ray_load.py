"""Cameras that ask a service while its parts die, and what their streams must be like then."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import pytest
import torch
from live_server import PATIENCE, in_threads
from test_lives import OPTIONS, STREAMS, seen_by
from torch import Tensor

from rotta import load_source
from rotta.client import Client
from rotta.pool import Request, StreamPool

SAVE_EVERY = 3


class Camera:
    """Asks for one stream, and notes what it has been taught."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.taught: list[int] = []
        """Numbers of the requests that its state is made of."""
        self.answers = 0
        self.ended = False
        self._answered_at: list[float] = []
        self._safe = 0
        self._client = Client(url, patience=PATIENCE, timeout=PATIENCE)

    def ask(self, number: int) -> None:
        place = self._client.predict(self.name, seen_by(self.name, number)).counters.requests
        assert place > self._safe, f"{self.name} is older than its last save"
        before = self.taught[: place - 1]
        # one that was learnt and saved by a replica which died before it could answer
        before += [number] * (place - 1 - len(before))
        assert len(before) == place - 1
        self.taught = [*before, number]
        self._answered_at = [*self._answered_at[: place - 1], time.time()]
        self.answers += 1
        if number % 4 == 3:
            self._note_safe()

    def _note_safe(self) -> None:
        info = self._client.info(self.name)  # which may be the first after a replica has died
        saved = info.saved_as_of or 0.0
        answered_at = self._answered_at[: info.requests]
        self._safe = max(self._safe, sum(at < saved for at in answered_at))

    def next_probabilities(self) -> Tensor:
        """Of one request more, which is always the same."""
        answer = self._client.predict(self.name, seen_by(self.name, 0), top=10)
        assert answer.counters.requests == len(self.taught) + 1
        by_class = [sorted(ranked, key=lambda each: each.number) for ranked in answer.top]
        return torch.tensor([[each.probability for each in ranked] for ranked in by_class])


@contextmanager
def asking(url: str) -> Iterator[list[Camera]]:
    """All cameras, which ask as long as the block runs."""
    cameras = [Camera(url, name) for name in STREAMS]
    enough = threading.Event()

    def ask(camera: Camera) -> None:
        numbers = count()
        try:
            while not enough.is_set():
                camera.ask(next(numbers))
        finally:
            camera.ended = True

    wrong: list[BaseException] = []
    work = [lambda camera=camera: ask(camera) for camera in cameras]
    thread = threading.Thread(target=lambda: wrong.extend(in_threads(work)))
    thread.start()
    try:
        yield cameras
    finally:
        enough.set()
        thread.join()
        assert not wrong


def wait_for_answers(cameras: Sequence[Camera], more: int) -> None:
    """Until each has so many more."""
    wanted = [camera.answers + more for camera in cameras]
    deadline = time.monotonic() + PATIENCE
    while any(c.answers < number for c, number in zip(cameras, wanted, strict=True)):
        assert time.monotonic() < deadline, "a stream does not answer"
        assert not any(camera.ended for camera in cameras), "a camera has failed"
        time.sleep(0.02)


def assert_taught(cameras: Sequence[Camera]) -> None:
    """Each stream is what its own requests make of it, and no other's."""
    last = []
    for camera in cameras:
        pool = StreamPool(load_source("digits"), 10, **OPTIONS)
        for number in camera.taught:
            pool([Request(camera.name, seen_by(camera.name, number))])
        assert pool.info(camera.name).updates > 0
        (prediction,) = pool.predict([Request(camera.name, seen_by(camera.name, 0))])
        assert prediction.logits is not None
        last.append(prediction.logits.softmax(dim=1))
        assert camera.next_probabilities().numpy() == pytest.approx(last[-1].numpy(), abs=2e-3)
    assert not torch.allclose(last[0], last[1], atol=2e-3)  # or else a mix-up would not be seen
