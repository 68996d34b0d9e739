"""What a store is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping


class Store(ABC):
    """Bytes by the name of their stream, written all or nothing; safe to use from threads.

    It is a :class:`~rotta.pool.StateStore`, so that a pool takes it as it is.
    """

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """What was last put under ``name``.

        Raises:
            StoreError: It cannot be read now.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Of all that is kept, in alphabetical order.

        Raises:
            StoreError: It cannot be read now.
        """

    @abstractmethod
    def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Put several at once, and remove those whose value is ``None``: all of them or none.

        They have reached the disk, or the other server, when this returns.

        Raises:
            StoreError: It cannot be written now; nothing has changed.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the file or the connection."""

    def put(self, name: str, data: bytes) -> None:
        """Keep ``data`` under ``name``, in place of what was there."""
        self.write({name: data})

    def delete(self, name: str) -> None:
        """Forget ``name``; one that is not there is no mistake."""
        self.write({name: None})
