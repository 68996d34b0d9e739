"""One network for thousands of streams, each of which adapts on its own."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rotta.adapters.checks import check_at_least_one
from rotta.models.checksum import checksum
from rotta.pool.engine import Engine
from rotta.pool.looking import bank_contents, stream_info
from rotta.pool.numbers import SOURCE
from rotta.pool.options import Options
from rotta.pool.records import BankContents, Prediction, Request, StreamInfo
from rotta.pool.residents import Residents
from rotta.pool.serving import Serving
from rotta.pool.store import StateStore, StoreError


class StreamPool:
    """Predict and adapt for many streams, as a ``RoTTA`` of its own for each would.

    There is one network. What tells streams apart, γ, β, statistics, optimiser and bank, lies in
    tables; requests of different streams are predicted in one pass, and streams whose update is
    due are updated in one pass. Each stream's predictions and state are those of
    ``RoTTA(net, num_classes, seed=stream_seed(seed, name), …)``, to rounding.

    Every method may be called from any thread; calls wait for each other.

    Args:
        net: A classifier with BatchNorm layers, in float32 or float64; it is not changed.
        num_classes: C, the number of its outputs.
        resident: How many streams are kept in memory; beyond, those longest not used go to the
            store.
        store: Where streams are kept otherwise. A pool has it for itself.
        save_every: A stream is also written to the store after so many of its requests; 0: only
            when it is created, reset, frozen, restored or evicted, and at the end.
        options: Of :class:`~rotta.RoTTA`: its constants, ``guard``, ``reset_every`` and ``seed``,
            from which each stream's seed is derived.

    Raises:
        ValueError: RoTTA would refuse the network or an option, or a pool has no such option.
        StoreError: The store cannot say what it holds.

    Example:
        >>> import rotta
        >>> pool = StreamPool(rotta.load_source("digits"), 10)
        >>> images = torch.rand(3, 3, 32, 32)
        >>> requests = [Request("door", images[:1]), Request("yard", images[1:])]
        >>> [prediction.logits.shape for prediction in pool(requests)]
        [torch.Size([1, 10]), torch.Size([2, 10])]
        >>> pool.names(), pool.info("yard").samples
        (['door', 'yard'], 2)
    """

    def __init__(
        self,
        net: nn.Module,
        num_classes: int,
        *,
        resident: int = 4096,
        store: StateStore | None = None,
        save_every: int = 0,
        **options: Any,
    ) -> None:
        check_at_least_one(resident=resident)
        if not isinstance(save_every, int) or save_every < 0:
            raise ValueError(f"save_every must be 0 or more, a whole number, got {save_every!r}")
        chosen = Options.checked(net, num_classes, options)
        self._most = resident
        self._engine = Engine(net, num_classes, chosen)
        numbers = self._engine.numbers.table
        self._device = numbers.device
        identity = {
            "network": checksum(net),
            "num_classes": num_classes,
            "channels": numbers.shape[2],
            "dtype": str(numbers.dtype),
            **chosen.identity(),
        }
        self._residents = Residents(
            self._engine, identity, seed=chosen.seed, most=resident, store=store
        )
        self._serving = Serving(self._engine, self._residents, save_every)
        self._lock = threading.RLock()

    def predict(self, requests: Sequence[Request]) -> list[Prediction]:
        """Predict for streams, in one pass; an unknown one is fetched from the store or created.

        What is to be learnt is remembered for :meth:`learn`. A stream that asks again before that
        learns first what it had predicted, so that it is always up to date.

        Args:
            requests: Each of another stream.

        Returns:
            An answer to each. A request that cannot be served carries its error, and has no
            effect; the others are served.

        Raises:
            ValueError: A stream occurs twice, or there are more than ``resident`` requests;
                nothing has changed.
        """
        with self._at_work():
            _check_together([request.stream for request in requests], self._most)
            return self._serving.predict(requests)

    def learn(self, *, one_pass: bool = False) -> list[str]:
        """Fill the banks with what was predicted since, and do the updates that are due.

        Streams that are due by now are also written to the store. If that fails, it is noted in
        :attr:`failed_saves` and tried again the next time.

        Args:
            one_pass: Do no more updates than go through the network together, so that whoever
                wants to predict need not wait for all; the other streams, see :attr:`waiting`,
                learn at the next calls, those first that have waited longest.

        Returns:
            The streams that were updated, or that their guards have news of.
        """
        with self._at_work():
            self._serving.learn(self._serving.next_to_learn() if one_pass else None)
            self._residents.retry_saves()
            for name in self._serving.due_to_be_saved():
                self._residents.try_to_save(name)
            return self._serving.updated()

    def __call__(self, requests: Sequence[Request]) -> list[Prediction]:
        """Predict, then learn."""
        with self._lock:
            predictions = self.predict(requests)
            self.learn()
            return predictions

    @property
    def waiting(self) -> int:
        """How many streams have predicted something that they have not learnt from yet."""
        with self._lock:
            return self._serving.waiting

    @property
    def failed_saves(self) -> dict[str, StoreError]:
        """Streams whose last scheduled save failed, and why: memory alone holds their state."""
        with self._lock:
            return dict(self._residents.failed)

    def names(self) -> list[str]:
        """All streams, in memory and in the store."""
        with self._lock:
            return sorted(self._residents.known)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return self._residents.is_known(name)

    def __len__(self) -> int:
        with self._lock:
            return len(self._residents.known)

    @property
    def resident(self) -> int:
        """How many streams are in memory."""
        with self._lock:
            return len(self._residents)

    def info(self, name: str) -> StreamInfo:
        """How a stream is doing; one that is not in memory is not brought there.

        Raises:
            ValueError: There is no such stream.
            StoreError: It is in the store, which cannot be read.
        """
        with self._at_work():
            resident = self._residents.here(name) is not None
            state = self._residents.state(name)
            return stream_info(name, state, self._engine.numbers.of(SOURCE), resident=resident)

    def bank(self, name: str) -> BankContents:
        """What a stream's bank holds.

        Raises:
            ValueError: There is no such stream.
            StoreError: It is in the store, which cannot be read.
        """
        with self._at_work():
            return bank_contents(self._residents.state(name))

    def reset(self, name: str) -> None:
        """Return a stream to its start, exactly; a frozen one stays frozen."""
        with self._at_work():
            self._residents.fetch(name)
            self._serving.forget(name)
            self._residents.start_anew(name)
            self._residents.try_to_save(name)

    def freeze(self, name: str, frozen: bool = True) -> None:
        """Let a stream predict without learning from now on, or learn again.

        What its guard has seen last is judged before.
        """
        with self._at_work():
            stream = self._residents.fetch(name)
            self._serving.learn([name])
            if frozen:
                self._engine.settle(stream)
            stream.record.frozen = frozen
            self._residents.try_to_save(name)

    def delete(self, name: str) -> None:
        """Forget a stream, in memory and in the store.

        Raises:
            ValueError: There is no such stream.
            StoreError: The store cannot forget it; nothing has changed.
        """
        with self._at_work():
            self._residents.check_known(name)
            self._residents.delete(name)
            self._serving.forget(name)

    def evict(self, name: str) -> None:
        """Write a stream to the store and free its place in memory.

        Raises:
            ValueError: There is no such stream, or no store.
            StoreError: It cannot be written; it stays in memory.
        """
        with self._at_work():
            self._residents.check_known(name)
            self._residents.evict(name)

    def evict_idle(self, seconds: float) -> list[str]:
        """Evict all streams that were not asked for so long.

        Returns:
            Their names.

        Raises:
            ValueError: There is no store.
            StoreError: One cannot be written; it and those after it stay in memory.
        """
        with self._lock:
            before = time.time() - seconds
            idle = [name for name, s in self._residents if s.record.last_used <= before]
            for name in idle:
                self.evict(name)
            return idle

    def save(self, name: str | None = None) -> None:
        """Write a stream to the store now, or all that are in memory.

        Raises:
            ValueError: There is no such stream, or no store.
            StoreError: It cannot be written.
        """
        with self._at_work():
            if name is not None:
                self._residents.check_known(name)
            here = [each for each, _ in self._residents if name in (None, each)]
            self._serving.learn(here)
            for each in here:
                self._residents.save(each)

    def state(self, name: str) -> bytes:
        """All that a stream has become, for :meth:`restore`: safetensors with a checksum.

        Raises:
            ValueError: There is no such stream.
            StoreError: It is in the store, which cannot be read.
        """
        with self._at_work():
            self._serving.learn([name])
            return self._residents.data(name)

    def restore(self, name: str, data: bytes) -> None:
        """Put a stream into a state that :meth:`state` gave, of whichever stream and device.

        Args:
            name: Of the stream, which is created if there is none.
            data: The state.

        Raises:
            ValueError: It is damaged, newer than this version, or of a pool with another network
                or other options, or there is no room; nothing has changed.
            StoreError: Another stream cannot be written to make room; nothing has changed.
        """
        with self._at_work():
            self._residents.put(name, data)
            self._serving.forget(name)
            self._residents.try_to_save(name)

    def close(self) -> None:
        """Learn what is left, and write all streams in memory to the store, if there is one.

        Raises:
            StoreError: It cannot be written; the pool can be used as before.
        """
        with self._at_work():
            self._serving.learn()
            if self._residents.has_store:
                self.save()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Alone; callers may be in inference_mode or autocast, in which nothing can be learnt."""
        precise = torch.autocast(self._device.type, enabled=False)
        with self._lock, torch.inference_mode(False), torch.no_grad(), precise:
            self._serving.note()
            yield


def _check_together(names: Sequence[str], most: int) -> None:
    """Refuse requests that cannot be served in one call."""
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise ValueError(f"a stream's name is a string, not {odd!r}: str({odd!r})")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"stream {twice!r} occurs twice: put its images into one request")
    if len(names) > most:
        raise ValueError(
            f"{len(names)} requests in one call, and the pool keeps {most} streams in memory: pass "
            "fewer, or build it with a higher resident"
        )
