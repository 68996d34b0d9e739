"""Sees to it that there are as many replicas as wanted, and notices those that are gone."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rotta.pool import StoreError
from rotta.serve.ray.connection import require_ray
from rotta.serve.ray.fenced_store import FencedStore
from rotta.serve.ray.placement import emptiest_node
from rotta.serve.ray.router import Member, Router

_LOG = logging.getLogger("rotta.serve")
_PERIOD = 0.5  # seconds between two looks
_SILENCE = 15.0  # seconds without an answer after which a replica counts as dead


@dataclass
class _Watched:
    member: Member
    answer: Any
    """Of Ray: to the question whether it is ready, or alive."""
    asked_at: float


class Keeper:
    """A thread that starts replicas, asks them whether they live, and replaces them.

    Args:
        start: Starts a replica, if possible on a machine that Ray knows by a name, without waiting
            for it.
        wanted: How many there shall be.
        router: Is told who comes and who goes.
        store: In which a newer generation would tell that this service is over.
        generation: Of this service.
    """

    def __init__(
        self,
        start: Callable[[str], Any],
        wanted: int,
        router: Router,
        store: FencedStore,
        generation: int,
    ) -> None:
        self.wanted = wanted
        self.deaths = 0
        """Replicas that were lost."""
        self._ray = require_ray()
        self._start = start
        self._router = router
        self._store = store
        self._generation = generation
        self._started = 0
        self._starting: list[_Watched] = []
        self._live: list[_Watched] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def gather(self, seconds: float) -> None:
        """Start all replicas, and wait until they can answer.

        Raises:
            ValueError: One cannot start, or there is no room for it.
        """
        until = time.monotonic() + seconds
        while len(self._live) < self.wanted:
            self._start_missing()
            self._welcome(strict=True)
            if time.monotonic() > until:
                raise ValueError(
                    f"after {seconds:g} s the Ray cluster has room for {len(self._live)} of "
                    f"{self.wanted} replicas: lower --replicas, or add machines"
                )
            self._enough.wait(_PERIOD / 10)

    def begin(self) -> None:
        """Look after them from now on."""
        self._thread.start()

    def end(self) -> None:
        """Let things be."""
        self._enough.set()
        if self._thread.is_alive():
            self._thread.join()

    def kill_all(self) -> None:
        """End all that were started; they have been stopped, or it is too late for that."""
        for watched in self._starting + self._live:
            self._kill(watched.member)

    def _run(self) -> None:
        while not self._enough.wait(_PERIOD):
            try:
                self._look()
            except Exception:  # a fault of ours must not leave the replicas alone
                _LOG.exception("looking after the replicas failed")

    def _look(self) -> None:
        if self._is_over():
            _LOG.error("another server has taken over the store: nothing is answered here any more")
            self._router.close()
            self._enough.set()
            return
        self._welcome(strict=False)
        self._live = [watched for watched in self._live if self._lives(watched)]
        self._start_missing()

    def _is_over(self) -> bool:
        try:
            return self._store.is_over(self._generation)
        except StoreError:
            return False  # others cannot begin without the store either

    def _start_missing(self) -> None:
        while len(self._starting) + len(self._live) < self.wanted:
            self._started += 1
            there = [watched.member.node for watched in self._starting + self._live]
            node = emptiest_node(self._ray.nodes(), there)
            member = Member(self._start(node), self._started, node=node)
            ready = member.actor.ready.remote()
            self._starting.append(_Watched(member, ready, time.monotonic()))

    def _welcome(self, strict: bool) -> None:
        """Let those who are ready have streams.

        Args:
            strict: Whether one that refuses to start is a mistake in what it was told, and not
                something that passes, such as a machine that has just gone.
        """
        for watched in list(self._starting):
            if not self._is_answered(watched.answer):
                continue
            member = watched.member
            try:
                member.host, member.node, member.process = self._ray.get(watched.answer)
            except self._ray.exceptions.RayError as error:
                if strict and getattr(error, "actor_init_failed", False):
                    reason = str(error).strip().splitlines()[-1]
                    raise ValueError(f"a replica could not start ({reason})") from error
                _LOG.error("a replica could not start: %s", error)
                self._kill(member)
            else:
                self._router.add(member)
                self._live.append(self._asked(member))
            self._starting.remove(watched)

    def _lives(self, watched: _Watched) -> bool:
        """Whether a replica still answers; if not, its streams go to others."""
        reason = self._what_is_wrong(watched)
        if reason is None:
            return True
        member = watched.member
        _LOG.error(
            "replica %d, process %d on %s, is gone (%s): others take its streams over, as of their "
            "last save",
            member.number,
            member.process,
            member.host,
            reason,
        )
        self.deaths += 1
        self._router.drop(member)
        self._kill(member)
        return False

    def _what_is_wrong(self, watched: _Watched) -> str | None:
        if watched.member.gone:
            return "it did not answer a request"
        if not self._is_answered(watched.answer):
            silent = time.monotonic() - watched.asked_at > _SILENCE
            return f"silent for {_SILENCE:g} s" if silent else None
        try:
            if not self._ray.get(watched.answer):
                return "its worker has ended"
        except self._ray.exceptions.RayError as error:
            return type(error).__name__
        again = self._asked(watched.member)
        watched.answer, watched.asked_at = again.answer, again.asked_at
        return None

    def _asked(self, member: Member) -> _Watched:
        return _Watched(member, member.actor.alive.remote(), time.monotonic())

    def _is_answered(self, answer: Any) -> bool:
        done, _ = self._ray.wait([answer], timeout=0)
        return bool(done)

    def _kill(self, member: Member) -> None:
        self._ray.kill(member.actor)
