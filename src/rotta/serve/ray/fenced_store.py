"""A store that several machines share: whoever has lost a stream can write it no more."""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from rotta.serve.stores.redis_hash import KEY, RedisStore

_LOG = logging.getLogger("rotta.serve")

EPOCHS = "rotta:epochs"
"""The hash in which each stream's epoch lies: that of the last replica which has claimed it."""
GENERATION = "rotta:generation"
"""How many servers have begun to use the store."""

_CLAIM = """
local newest = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0')
if newest > tonumber(ARGV[2]) then return 'lost' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {redis.call('HGET', KEYS[2], ARGV[1])}
"""
# four arguments for each stream: its name, its epoch, whether it is to be kept, its state; the
# epoch is written again for a Redis that has forgotten everything
_WRITE = """
local lost = {}
for i = 1, #ARGV, 4 do
  if tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or '0') > tonumber(ARGV[i + 1]) then
    lost[#lost + 1] = ARGV[i]
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    if ARGV[i + 2] == '1' then
      redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 3])
    else
      redis.call('HDEL', KEYS[2], ARGV[i])
    end
  end
end
return lost
"""
_ASSERT = """
local newest = tonumber(redis.call('GET', KEYS[1]) or '0')
if newest < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return newest
"""


class LostError(RuntimeError):
    """Another replica holds this stream now."""


class FencedStore(RedisStore):
    """States in Redis, each written only by the replica that was the last to claim it.

    A claim has an epoch, newer than those of all claims before. Redis compares it in the same step
    in which it writes, so that however late the write of a replica comes that was thought dead,
    what a newer one has written stays. Epochs outlive the streams.

    Args:
        url: ``redis://[user:password@]host:port/number``.

    Raises:
        ModuleNotFoundError: The package ``redis`` is not installed.
        ValueError: The address cannot be read.
        StoreError: Nobody answers there.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._claim: Any = self._redis.register_script(_CLAIM)
        self._write: Any = self._redis.register_script(_WRITE)
        self._assert: Any = self._redis.register_script(_ASSERT)
        self._lock = threading.Lock()
        self._epochs: dict[str, int] = {}
        self._lost: set[str] = set()

    def begin(self) -> int:
        """Begin a generation of the whole service; those before are over.

        Raises:
            StoreError: The store cannot be written now.
        """
        generation: int = self._safely(lambda: self._redis.incr(GENERATION))
        return generation

    def generation(self) -> int:
        """The newest.

        Raises:
            StoreError: The store cannot be read now.
        """
        return int(self._safely(lambda: self._redis.get(GENERATION)) or 0)

    def is_over(self, generation: int) -> bool:
        """Whether there is a newer generation; a Redis that has forgotten this one is reminded.

        Raises:
            StoreError: The store cannot be asked now.
        """
        newest: int = self._safely(lambda: self._assert(keys=[GENERATION], args=[generation]))
        return newest > generation

    def claim(self, name: str, epoch: int) -> bytes | None:
        """Hold a stream from now on, and read its state; ``None`` if it has none.

        Raises:
            LostError: It was claimed with a newer epoch.
            StoreError: The store cannot be asked now.
        """
        answer = self._safely(lambda: self._claim(keys=[EPOCHS, KEY], args=[name, epoch]))
        if not isinstance(answer, list):
            raise LostError(f"stream {name} is held by another replica")
        with self._lock:
            self._epochs[name] = epoch
        state: bytes | None = answer[0]
        return state

    def has_lost(self, name: str) -> bool:
        """Whether a write was refused because another replica holds the stream."""
        with self._lock:
            return name in self._lost

    def held(self) -> list[str]:
        """Streams that were claimed here, in alphabetical order."""
        with self._lock:
            return sorted(self._epochs)

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Put several at once, and remove those whose value is ``None``; not those that are lost.

        Raises:
            StoreError: It cannot be written now; nothing has changed.
        """
        words: list[str | int | bytes] = []
        with self._lock:
            for name, data in changes.items():
                words += [name, self._epochs[name], int(data is not None), data or b""]
        lost = self._safely(lambda: self._write(keys=[EPOCHS, KEY], args=words))
        for name in (each.decode() for each in lost):
            _LOG.error("stream %s is held by another replica: what was learnt here is lost", name)
            with self._lock:
                self._lost.add(name)


class ClaimedStore(FencedStore):
    """The same for a pool, which must know no stream before it is claimed."""

    def names(self) -> list[str]:
        """Those that were claimed here, in alphabetical order."""
        return self.held()
