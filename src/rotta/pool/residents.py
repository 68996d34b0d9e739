"""Which streams are in memory, which only in the store, and how they go back and forth."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from rotta.pool.engine import Engine
from rotta.pool.seeds import stream_seed
from rotta.pool.store import StateStore, StoreError
from rotta.pool.stream import Stream
from rotta.pool.stream_state import StreamState

T = TypeVar("T")


class Residents:
    """The streams in memory, the one that was used last at the end.

    Args:
        engine: In whose tables they lie.
        identity: What the states of this pool depend on.
        seed: The pool's.
        most: How many there may be.
        store: For the others, if there is one.

    Attributes:
        before_eviction: Called with the name of a stream that will be evicted.
        failed: Streams whose last scheduled save failed, and why; tried again by
            :meth:`retry_saves`.
    """

    def __init__(
        self,
        engine: Engine,
        identity: dict[str, Any],
        *,
        seed: int,
        most: int,
        store: StateStore | None,
    ) -> None:
        self._engine = engine
        self._identity = identity
        self._seed = seed
        self._most = most
        self._store = store
        self._here: OrderedDict[str, Stream] = OrderedDict()
        self._stored = set() if store is None else set(_asked(store.names))
        self.before_eviction: Callable[[str], None] = lambda _: None
        self.failed: dict[str, StoreError] = {}

    @property
    def known(self) -> set[str]:
        """All names, in memory or in the store."""
        return self._stored | set(self._here)

    def is_known(self, name: object) -> bool:
        """Whether there is such a stream, in memory or in the store."""
        return name in self._here or name in self._stored

    def here(self, name: str) -> Stream | None:
        """A stream, if it is in memory."""
        return self._here.get(name)

    def used(self, name: str) -> Stream | None:
        """The same, and it is the one that was used last from now on."""
        stream = self._here.get(name)
        if stream is not None:
            self._here.move_to_end(name)
        return stream

    @property
    def has_store(self) -> bool:
        """Whether there is anything else than memory."""
        return self._store is not None

    def __len__(self) -> int:
        return len(self._here)

    def __iter__(self) -> Iterator[tuple[str, Stream]]:
        return iter(list(self._here.items()))

    def fetch(self, name: str, busy: Collection[str] = ()) -> Stream:
        """A stream that is known, brought into memory.

        Args:
            name: Its name.
            busy: Streams that must not make room for it.

        Raises:
            ValueError: There is no such stream, no room, or what was stored cannot be used.
            StoreError: The store cannot be read, or not be written to make room.
        """
        self.check_known(name)
        if name not in self._here:
            state = self._read(name, self._data(name))
            self._settle(name, state, busy)
        self._here.move_to_end(name)
        return self._here[name]

    def create(self, name: str, busy: Collection[str] = ()) -> Stream:
        """A new stream; it is in no store yet."""
        assert not self.is_known(name)
        return self._settle(name, None, busy)

    def abandon(self, name: str) -> None:
        """Free a stream's place in memory; what the store has stays there."""
        stream = self._here.pop(name, None)
        if stream is not None:
            self._engine.drop(stream)
        self.failed.pop(name, None)

    def start_anew(self, name: str) -> None:
        """Put a stream in memory back to its start; a frozen one stays frozen."""
        stream = self._here[name]
        kept = stream.record.frozen, stream.record.last_used
        self._engine.drop(stream)
        fresh = self._engine.new(stream_seed(self._seed, name))
        fresh.record.frozen, fresh.record.last_used = kept
        self._here[name] = fresh

    def put(self, name: str, data: bytes) -> None:
        """Put a stream into a state, in memory; create it if need be."""
        state = self._read(name, data)
        if name in self._here:
            self._engine.load(self._here[name], state)
        else:
            self._settle(name, state, ())

    def evict(self, name: str) -> None:
        """Write a stream to the store, and free its place then."""
        if name in self._here:
            self.before_eviction(name)
            self.save(name)
            self.abandon(name)

    def delete(self, name: str) -> None:
        """Forget a stream, in the store and in memory."""
        if self._store is not None:
            _asked(self._store.delete, name)
            self._stored.discard(name)
        self.abandon(name)

    def state(self, name: str) -> StreamState:
        """Of a stream, wherever it is."""
        self.check_known(name)
        if name in self._here:
            return self._engine.state(self._here[name])
        return self._read(name, self._data(name))

    def data(self, name: str) -> bytes:
        """The state of a stream, wherever it is, as bytes."""
        self.check_known(name)
        if name in self._here:
            return self._engine.state(self._here[name]).to_bytes(self._identity)
        return self._data(name)

    def save(self, name: str) -> None:
        """Write a stream in memory to the store."""
        if self._store is None:
            raise ValueError("the pool has no store to save to: pass one as store=…")
        _asked(self._store.put, name, self.data(name))
        self._stored.add(name)
        self.failed.pop(name, None)

    def try_to_save(self, name: str) -> None:
        """The same if there is a store and anything to save; if it fails, that is noted."""
        if self._store is not None and name in self._here:
            try:
                self.save(name)
            except StoreError as error:
                self.failed[name] = error

    def retry_saves(self) -> None:
        """Try again what failed, up to the first that is refused again.

        The others would hardly fare better, and to ask for each takes its state as bytes. It is
        the last to be tried next time: it may be for its own sake that it is refused.
        """
        for name in list(self.failed):
            self.try_to_save(name)
            if name in self.failed:
                self.failed[name] = self.failed.pop(name)
                return

    def check_known(self, name: str) -> None:
        """Refuse a name that is not there."""
        if not self.is_known(name):
            raise ValueError(f"there is no stream {name!r}: names() lists those that there are")

    def _settle(self, name: str, state: StreamState | None, busy: Collection[str]) -> Stream:
        """Give a stream a place in memory."""
        self._make_room(busy)
        stream = self._engine.new(stream_seed(self._seed, name))
        if state is not None:
            self._engine.load(stream, state)
        self._here[name] = stream
        return stream

    def _make_room(self, busy: Collection[str]) -> None:
        while len(self._here) >= self._most:
            if self._store is None:
                raise ValueError(
                    f"{self._most} streams are in memory, and there is no store for others: pass "
                    "store=…, a higher resident, or delete some"
                )
            self.evict(next(name for name in self._here if name not in busy))

    def _data(self, name: str) -> bytes:
        assert self._store is not None, "what is known is in memory or in a store"
        data = _asked(self._store.get, name)
        if data is None:
            raise StoreError(f"the store has lost stream {name!r}: delete it, or bring it back")
        return data

    def _read(self, name: str, data: bytes) -> StreamState:
        return StreamState.from_bytes(data, self._identity, f"the state of stream {name!r}")


def _asked(call: Callable[..., T], *arguments: Any) -> T:
    try:
        return call(*arguments)
    except StoreError:
        raise
    except Exception as error:  # a store may be anything
        raise StoreError(f"the store failed ({error}): see to it, and try again") from error
