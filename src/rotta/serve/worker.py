"""The one thread that owns the pool: it answers, then learns, turn by turn."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rotta.pool import Prediction, Request, StoreError, StreamPool
from rotta.serve.counters import Counters, StreamCounters
from rotta.serve.history import History
from rotta.serve.limits import Limits
from rotta.serve.refusals import Refusal
from rotta.serve.shares import Shares
from rotta.serve.waiting_line import Job, WaitingLine

_LOG = logging.getLogger("rotta.serve")
_STORE_RESTS = 2  # seconds in which a store that failed is not asked again


@dataclass(frozen=True)
class Turn:
    """What a turn was, for the metrics."""

    requests: int
    images: int
    predicting: float
    """Seconds until all were answered."""
    learning: float
    """Seconds after that."""
    updates: int
    """Streams that were updated."""
    alarms: int
    """Times that a guard stepped in."""


class Observer(Protocol):
    """Whom the worker tells what it does."""

    def turn(self, turn: Turn) -> None:
        """A turn is over."""


@dataclass(frozen=True, eq=False)
class Answer:
    """To one request for predictions."""

    probabilities: Tensor
    """(B, C), on the CPU."""
    latency: float
    """Seconds in which it waited and was predicted."""
    counters: StreamCounters


class Worker:
    """Serves the waiting line until it is closed and empty.

    In a turn, predictions of different streams go through the network together and are answered;
    then the pool learns, no more than goes through the network in one pass, and the next turn
    begins; what is left to be learnt is so done between predictions. Whatever else concerns the
    pool is done by this thread too, in the order in which it was asked of a stream.

    Args:
        pool: Nobody else may use it.
        limits: Of the line.
        device: Where the pool's network is.
        observer: Is told of each turn.
        shares: Is told how much of it was for whom.
    """

    def __init__(
        self,
        pool: StreamPool,
        limits: Limits,
        device: torch.device,
        observer: Observer,
        shares: Shares,
    ) -> None:
        self.line = WaitingLine(limits, shares)
        self.history = History()
        self.known = len(pool)
        """Streams in memory or in the store, after the last turn."""
        self.resident = pool.resident
        """Streams in memory, after the last turn."""
        self.unsaved = 0
        """Streams that the store did not even take for saving, after the last turn."""
        self._miscounted = False  # counting takes long where there are very many
        self._alarms = 0  # raised by changes since the last turn
        self._pool = pool
        self._counters = Counters(pool, self.history.note)
        self._device = device
        self._observer = observer
        self._shares = shares
        # divided by a tensor, as streams do it, so that a PNG has the same pixels here and there
        self._white = torch.tensor(255.0, device=device)
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether somebody serves the line."""
        return self._thread.is_alive()

    def finish(self) -> None:
        """Take nothing more in, and wait until all that waits is answered and learnt."""
        self.line.close()
        if self.alive:
            self._thread.join()

    def predict(self, stream: str, images: Tensor) -> "Future[Answer]":
        """Ask for predictions of images, uint8 or in [0, 1], (B, 3, H, W).

        Raises:
            Refusal: Too much is waiting.
        """
        return self._enqueue(Job(stream, images=images))

    def ask(self, command: Callable[[StreamPool], Any]) -> "Future[Any]":
        """Have something asked of the pool that changes nothing.

        Raises:
            Refusal: Too much is waiting.
        """
        return self._enqueue(Job(None, command=lambda: command(self._pool)))

    def change(
        self,
        stream: str,
        command: Callable[[StreamPool], Any],
        *,
        at_once: bool = False,
        another: bool = False,
    ) -> "Future[Any]":
        """Have a stream changed, after what was asked of it before.

        Args:
            stream: Which.
            command: Changes it.
            at_once: Before the predictions that wait; for what is done to a flood.
            another: Whether it will be another: what its guard did was counted elsewhere.

        Raises:
            Refusal: Too much is waiting.
        """

        def changing() -> Any:
            self._miscounted = True
            if another:
                self._counters.forget(stream)
            try:
                return command(self._pool)
            finally:
                self._alarms += self._counters.changed(stream)

        return self._enqueue(Job(stream, command=changing, at_once=at_once))

    def _enqueue(self, job: Job) -> "Future[Any]":
        self.line.put(job)
        return job.answer

    def _run(self) -> None:
        # what is still to be learnt is done bit by bit, between the turns of those who ask
        while (jobs := self.line.take(wait=not self._pool.waiting)) or self._pool.waiting:
            wanted = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
            try:
                self._turn(wanted)
            except Exception as error:
                _LOG.exception("a turn failed")
                for job in wanted:
                    if not job.answer.done():
                        job.answer.set_exception(error)

    def _turn(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.command is not None:
                _do(job.command, job.answer)
        asked = [job for job in jobs if job.images is not None]
        start = time.monotonic()
        if asked:
            self._predict(asked)
        answered = time.monotonic()
        self._shares.charge({str(job.stream): job.size for job in asked}, answered - start)
        if asked or self._pool.waiting or self._alarms:
            updated = [] if self._others_first(asked) else self._pool.learn(one_pass=True)
            self._account(asked, updated, answered - start, answered)
        self.resident, self.unsaved = self._pool.resident, len(self._pool.failed_saves)
        if self._miscounted:
            self.known, self._miscounted = len(self._pool), False

    def _predict(self, jobs: list[Job]) -> None:
        jobs = [job for job in jobs if self._is_expected(job)]
        requests = [Request(str(job.stream), self._prepared(job)) for job in jobs]
        predictions = self._pool.predict(requests)
        served = [pair for pair in zip(jobs, predictions, strict=True) if pair[1].served]
        for job, prediction in zip(jobs, predictions, strict=True):
            if not prediction.served:
                self._counters.forget(str(job.stream))
                job.answer.set_exception(as_refusal(prediction.error))
        if served:
            self._answer(served)

    def _is_expected(self, job: Job) -> bool:
        self._miscounted |= job.stream not in self._pool
        try:
            self._counters.expect(str(job.stream))
        except (StoreError, ValueError) as error:
            job.answer.set_exception(as_refusal(error))
            return False
        return True

    def _answer(self, served: list[tuple[Job, Prediction]]) -> None:
        sizes = [job.size for job, _ in served]
        logits = torch.cat([p.logits for _, p in served if p.logits is not None])
        probabilities = logits.detach().float().softmax(dim=1).cpu()
        of_each = torch.split(probabilities, sizes)
        latencies = []
        for (job, _), own in zip(served, of_each, strict=True):
            counters = self._counters.predicted(str(job.stream), job.size)
            latencies.append(time.monotonic() - job.arrived)
            job.answer.set_result(Answer(own, latencies[-1], counters))
        likeliest = probabilities.max(dim=1)
        classes = torch.split(likeliest.indices, sizes)
        confidences = torch.split(likeliest.values, sizes)
        entropies = torch.split(torch.special.entr(probabilities).sum(dim=1), sizes)
        for (job, _), top, sure, entropy, latency in zip(
            served, classes, confidences, entropies, latencies, strict=True
        ):
            assert job.images is not None
            name, mean = str(job.stream), entropy.mean().item()
            self.history.add(name, job.images, top.tolist(), sure.tolist(), mean, latency)

    def _others_first(self, asked: list[Job]) -> bool:
        """Whether to learn a turn later: only streams that have to rest asked, and others wait."""
        resting = asked and all(self._shares.rest(str(job.stream)) for job in asked)
        return bool(resting) and self.line.has_next()

    def _account(
        self, asked: list[Job], changed: list[str], predicting: float, answered: float
    ) -> None:
        updates, alarms = self._counters.learnt(changed)
        alarms, self._alarms = alarms + self._alarms, 0
        learning = time.monotonic() - answered
        self._shares.charge(dict.fromkeys(changed, 1), learning)
        self._observer.turn(
            Turn(
                requests=len(asked),
                images=sum(job.size for job in asked),
                predicting=predicting,
                learning=learning,
                updates=updates,
                alarms=alarms,
            )
        )

    def _prepared(self, job: Job) -> Tensor:
        assert job.images is not None
        images = job.images.to(self._device)
        return images / self._white if images.dtype == torch.uint8 else images


def as_refusal(error: Exception | None) -> Exception:
    """An error of the pool as an answer to whoever asked."""
    if isinstance(error, StoreError):
        return Refusal(503, f"{error}: send this again later", _STORE_RESTS)
    if isinstance(error, ValueError):  # images were looked at before, so it is the stream's state
        return Refusal(409, f"{error}. Or DELETE the stream, to start it anew")
    return error or AssertionError("a prediction without logits has an error")


def _do(command: Callable[[], Any], answer: "Future[Any]") -> None:
    try:
        answer.set_result(command())
    except Exception as error:
        answer.set_exception(as_refusal(error))
