"""States in Redis, for servers without a disk of their own."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from rotta.pool import StoreError
from rotta.serve.stores.base import Store

Result = TypeVar("Result")

KEY = "rotta:streams"
"""The one hash in which all states lie, by name."""
_SECONDS = 2.0  # an answer that takes longer counts as none


class RedisStore(Store):
    """One hash of a Redis database; how lasting it is, its own settings say (``appendonly``).

    Args:
        url: ``redis://[user:password@]host:port/number``.

    Raises:
        ModuleNotFoundError: The package ``redis`` is not installed.
        ValueError: The address cannot be read.
        StoreError: Nobody answers there.
    """

    def __init__(self, url: str) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "a store in Redis needs its package: pip install 'rotta[redis]'", name="redis"
            ) from error
        _check_address(url)
        self._errors = redis.RedisError
        self._where = _without_password(url)
        self._redis: Any = redis.Redis.from_url(
            url,
            socket_timeout=_SECONDS,
            socket_connect_timeout=_SECONDS,
            retry=Retry(NoBackoff(), 1),  # a connection that went stale; whoever calls waits longer
        )
        self._safely(self._redis.ping)

    def get(self, name: str) -> bytes | None:
        """What was last put under ``name``."""
        data: bytes | None = self._safely(lambda: self._redis.hget(KEY, name))
        return data

    def names(self) -> list[str]:
        """Of all that is kept, in alphabetical order."""
        return sorted(name.decode() for name in self._safely(lambda: self._redis.hkeys(KEY)))

    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Put several at once, and remove those whose value is ``None``: all of them or none."""
        put = {name: data for name, data in changes.items() if data is not None}
        gone = [name for name, data in changes.items() if data is None]
        transaction = self._redis.pipeline(transaction=True)
        if put:
            transaction.hset(KEY, mapping=put)
        if gone:
            transaction.hdel(KEY, *gone)
        self._safely(transaction.execute)

    def close(self) -> None:
        """Let go of the connection."""
        self._redis.close()

    def _safely(self, operation: Callable[[], Result]) -> Result:
        try:
            return operation()
        except (self._errors, OSError) as error:
            raise StoreError(
                f"Redis at {self._where} does not answer as it should ({error}): start it, or "
                "check the address"
            ) from error


def _check_address(url: str) -> None:
    """Refuse what the package would take for another database than the one that was meant."""
    parts = urlsplit(url)
    try:
        is_right = parts.scheme == "unix" or re.fullmatch(r"/?\d*", parts.path) is not None
        parts.port  # noqa: B018 (raises if it is none)
    except ValueError:
        is_right = False
    if not is_right:
        raise ValueError(
            f"the address of Redis at {_without_password(url)} cannot be read: give one like "
            "redis://host:6379/0"
        )


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or parts.path
