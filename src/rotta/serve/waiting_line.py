"""Who waits for the worker: bounded, fair between streams, in order within each."""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rotta.serve.limits import Limits
from rotta.serve.refusals import ENDING, Refusal
from rotta.serve.shares import Shares

_COMMANDS_PER_TURN = 16  # that are about no stream in particular


def too_much_waiting(stream: str) -> Refusal:
    """What a stream is told that asks for more than it gets."""
    return Refusal(
        429,
        f"stream {stream} has too much waiting already: wait for answers before you send more",
        1,
    )


@dataclass(eq=False)
class Job:
    """Something for the worker to do, about one stream or about none."""

    stream: str | None
    images: Tensor | None = None
    """(B, 3, H, W) to predict; if there are none, ``command`` is to be run."""
    command: Callable[[], Any] | None = None
    at_once: bool = False
    """Whether a command about a stream overtakes its predictions."""
    answer: "Future[Any]" = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        """In images; a command counts as one."""
        return 1 if self.images is None else len(self.images)


class WaitingLine:
    """A queue for each stream, served in turns, so that none can hold up the others.

    Args:
        limits: ``queue``, ``queue_per_stream``, ``max_batch`` and ``max_wait`` count here.
        shares: Whose predictions wait until their stream has rested; nobody's if left out.

    Example:
        >>> import torch
        >>> line = WaitingLine(Limits(max_wait=0))
        >>> for stream in ("a", "a", "b"):
        ...     line.put(Job(stream, torch.zeros(1, 3, 8, 8)))
        >>> [[job.stream for job in line.take()] for _ in range(2)]
        [['a', 'b'], ['a']]
    """

    def __init__(self, limits: Limits, shares: Shares | None = None) -> None:
        self._limits = limits
        self._shares = shares or Shares()
        self._changed = threading.Condition()
        self._queues: OrderedDict[str, deque[Job]] = OrderedDict()  # next in turn first
        self._sizes: dict[str, int] = {}
        self._others: deque[Job] = deque()
        self._announced: Counter[str] = Counter()
        self._size = 0
        self._closed = False

    @property
    def size(self) -> int:
        """Images and commands that wait, and images that are announced."""
        with self._changed:
            return self._size + self._announced.total()

    def has_next(self) -> bool:
        """Whether :meth:`take` would hand out something without waiting for it."""
        with self._changed:
            return bool(self._others or self._ready())

    def check_room(self, stream: str | None, size: int = 1) -> None:
        """Refuse what :meth:`put` would refuse now.

        Raises:
            Refusal: 429 where the stream has too much waiting, 503 where all together have, or
                where the server ends.
        """
        with self._changed:
            self._check_room(stream, size)

    def put(self, job: Job) -> None:
        """Let a job wait.

        Raises:
            Refusal: See :meth:`check_room`; the job does not wait then.
        """
        with self._changed:
            # who wants to stop a flood must not be told that it is one
            self._check_room(None if job.at_once else job.stream, job.size)
            if job.stream is None:
                self._others.append(job)
            else:
                queue = self._queues.setdefault(job.stream, deque())
                before = sum(each.at_once for each in queue) if job.at_once else len(queue)
                queue.insert(before, job)
                self._sizes[job.stream] = self._sizes.get(job.stream, 0) + job.size
            self._size += job.size
            self._changed.notify_all()

    @contextmanager
    def announced(self, stream: str, size: int) -> Iterator[None]:
        """Count images that are still being decoded as if they waited, as long as a block runs.

        Raises:
            Refusal: See :meth:`check_room`.
        """
        with self._changed:
            self._check_room(stream, size)
            self._announced[stream] += size
        try:
            yield
        finally:
            with self._changed:
                self._announced[stream] -= size
                if not self._announced[stream]:
                    del self._announced[stream]

    def take(self, *, wait: bool = True) -> list[Job]:
        """Wait for jobs; those of the next turn: at most one for each stream, the oldest.

        A prediction waits at most ``max_wait`` for others to fill the batch. Once the line is
        closed, what is left is handed out without waiting, and then nothing.

        Args:
            wait: False: those that are there by now, for somebody who has other things to do.
        """
        with self._changed:
            if not wait:
                return self._next_turn()
            while True:
                while not (self._others or self._closed or self._ready()):
                    self._changed.wait(min(map(self._shares.rest, self._queues), default=None))
                deadline = self._oldest() + self._limits.max_wait
                while not self._is_enough() and (left := deadline - time.monotonic()) > 0:
                    self._changed.wait(left)
                # none, if all who were ready have to rest now: others work for them meanwhile
                if (jobs := self._next_turn()) or self._closed:
                    return jobs

    def close(self) -> None:
        """Take nothing more in."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _check_room(self, stream: str | None, size: int) -> None:
        if self._closed:
            raise Refusal(503, ENDING, 5)
        if self._size + self._announced.total() + size > self._limits.queue:
            raise Refusal(503, "the server has more to do than it can: send this again later", 1)
        if stream and self._waiting(stream) + size > self._limits.queue_per_stream:
            raise too_much_waiting(stream)

    def _waiting(self, stream: str) -> int:
        return self._sizes.get(stream, 0) + self._announced[stream]

    def _ready(self) -> dict[str, deque[Job]]:
        """The queues whose turn it can be, the next first; commands need no rest."""
        return {
            stream: queue
            for stream, queue in self._queues.items()
            if self._closed or queue[0].images is None or not self._shares.rest(stream)
        }

    def _oldest(self) -> float:
        arrived = [queue[0].arrived for queue in self._ready().values()]
        return min(arrived, default=time.monotonic())

    def _is_enough(self) -> bool:
        """Whether waiting longer would bring nothing."""
        if self._closed or self._others:
            return True
        heads = [queue[0] for queue in self._ready().values()]
        return sum(job.size for job in heads) >= self._limits.max_batch or any(
            job.images is None for job in heads
        )

    def _next_turn(self) -> list[Job]:
        jobs = [self._others.popleft() for _ in range(min(len(self._others), _COMMANDS_PER_TURN))]
        room = self._limits.max_batch
        taken: list[str] = []
        for stream, queue in self._ready().items():
            if taken and queue[0].size > room:
                break  # not overtaken by smaller ones, which might go on for ever
            room -= queue[0].size
            taken.append(stream)
            if room <= 0:
                break
        for stream in taken:
            jobs.append(self._pop(stream))
        self._size -= sum(job.size for job in jobs)
        return jobs

    def _pop(self, stream: str) -> Job:
        queue = self._queues.pop(stream)
        job = queue.popleft()
        self._sizes[stream] -= job.size
        if queue:
            self._queues[stream] = queue  # at the end: the others first
        else:
            del self._sizes[stream]
        return job
