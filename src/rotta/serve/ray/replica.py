"""A process on some machine that holds streams: the whole service but its port."""

import asyncio
import logging
import os
import socket
from typing import Any

from rotta.pool import StoreError
from rotta.serve.app import build_app, refusal_answer
from rotta.serve.ray.connection import require_ray
from rotta.serve.ray.fenced_store import ClaimedStore, LostError
from rotta.serve.ray.messages import Answered, Asked, ask_app
from rotta.serve.refusals import Refusal
from rotta.serve.routes.common import answer_of
from rotta.serve.served_model import ServedModel
from rotta.serve.service import Service
from rotta.serve.worker import as_refusal


class Replica:
    """Answers for the streams that it is given; an actor of Ray.

    It knows a stream only after it has claimed it in the store, and has got its state from there.

    Args:
        model: What predicts.
        store: The address of the Redis that all share.
        generation: Which the store must have, or it is another store.
        settings: Of :class:`rotta.serve.Service`.

    Raises:
        ValueError: This machine reaches another Redis, or a newer server uses it.
        StoreError: This machine reaches none.
    """

    def __init__(
        self, model: ServedModel, store: str, generation: int, settings: dict[str, Any]
    ) -> None:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._store = ClaimedStore(store)
        if self._store.generation() != generation:
            raise ValueError(
                f"{socket.gethostname()} reaches another Redis, or a newer server uses it: give "
                "--store an address that means the same everywhere"
            )
        self._service = Service(model, store=self._store, **settings)
        self._service.start()
        self._app = build_app(self._service)
        self._epochs: dict[str, int] = {}
        self._claims: dict[str, asyncio.Task[None]] = {}

    async def ready(self) -> tuple[str, str, int]:
        """The machine, also as Ray knows it, and the process, once it can answer."""
        node: str = require_ray().get_runtime_context().get_node_id()
        return socket.gethostname(), node, os.getpid()

    async def alive(self) -> bool:
        """Whether it predicts."""
        return self._service.worker.alive

    async def answer(self, asked: Asked, stream: str | None, epoch: int) -> Answered:
        """As the application here answers; if it is about a stream, that is claimed before."""
        try:
            if stream is not None:
                await self._hold(stream, epoch)
        except Refusal as refusal:
            if refusal.status == 409 and asked.method == "DELETE":
                return self._deleted(stream, epoch)
            return Answered.of(refusal_answer(refusal))
        return await ask_app(self._app, asked)

    async def stop(self) -> bool:
        """Do what was asked, learn, save all; whether all could be saved."""
        return await asyncio.to_thread(self._service.stop)

    async def _hold(self, stream: str, epoch: int) -> None:
        if self._epochs.get(stream) != epoch:
            if stream not in self._claims:  # or else the second of two would undo the first
                self._claims[stream] = asyncio.create_task(self._claim(stream, epoch))
                self._claims[stream].add_done_callback(lambda _: self._claims.pop(stream))
            await asyncio.shield(self._claims[stream])
        if self._store.has_lost(stream):
            raise _moved(stream)

    async def _claim(self, stream: str, epoch: int) -> None:
        """Take over a stream, as of its last save.

        Raises:
            Refusal: It cannot be had, or its state cannot be used.
        """
        if stream in self._epochs:  # writes from then may still wait here: it never comes back
            raise _moved(stream)
        try:
            state = await asyncio.to_thread(self._store.claim, stream, epoch)
        except LostError as error:
            raise _moved(stream) from error
        except StoreError as error:
            raise as_refusal(error) from error
        if state is not None:
            restored = self._service.worker.change(
                stream, lambda pool: pool.restore(stream, state), another=True
            )
            await answer_of(restored)
        self._epochs[stream] = epoch

    def _deleted(self, stream: str | None, epoch: int) -> Answered:
        """A stream whose state no pool can read is deleted past the pool."""
        assert stream is not None
        self._service.saver.delete(stream)
        self._epochs[stream] = epoch
        return Answered(204, [], b"", "delete")


def _moved(stream: str) -> Refusal:
    return Refusal(503, f"stream {stream} is held by another replica now: send this again", 1)
