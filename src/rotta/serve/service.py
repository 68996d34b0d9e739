"""All parts of a server but the network: model, pool, store, worker, metrics."""

import logging
from pathlib import Path
from typing import Any

import torch
from starlette.types import ASGIApp

from rotta.pool import StreamPool
from rotta.serve.access import Access
from rotta.serve.decoders import Decoders
from rotta.serve.gate import Gate
from rotta.serve.limits import Limits
from rotta.serve.metrics import Metrics, Reading
from rotta.serve.served_model import ServedModel
from rotta.serve.shares import Shares
from rotta.serve.stores import Store, WriteBehind, open_store
from rotta.serve.uploads import Uploads
from rotta.serve.worker import Worker

_LOG = logging.getLogger("rotta.serve")
_LOOKED_AT = 8  # streams; a few may be damaged, which is no reason to refuse the others


class Service:
    """A model that is ready to be served; :func:`rotta.serve.run` puts it on the network.

    Args:
        model: What predicts.
        store: Where streams are kept, see :func:`rotta.serve.open_store`; or one that is open.
        save_every: Requests of a stream between two saves of it.
        resident: Streams in memory; others are in the store alone.
        limits: On what is asked and on what waits.
        token: Which clients must know; without one, this machine alone is served.
        device: Where the network computes.
        options: Of :class:`rotta.RoTTA`.

    Raises:
        ValueError: An option is out of range, or the store is in use or holds streams of another
            model.
        StoreError: The store cannot be opened.

    Example:
        >>> import tempfile
        >>> from rotta.serve.served_model import load_model
        >>> file = Path(tempfile.mkdtemp()) / "state.sqlite"
        >>> service = Service(load_model("digits"), store=file)
        >>> service.start()
        >>> images = torch.zeros(2, 3, 32, 32)
        >>> service.worker.predict("camera", images).result().probabilities.shape
        torch.Size([2, 10])
        >>> service.stop()
        True
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        store: str | Path | Store,
        save_every: int = 10,
        resident: int = 4096,
        limits: Limits | None = None,
        token: str | None = None,
        device: str = "cpu",
        **options: Any,
    ) -> None:
        self.model = model
        self.limits = limits or Limits()
        self.guarded = bool(options.get("guard"))
        if resident < self.limits.max_batch:
            raise ValueError(
                f"{resident} streams in memory are fewer than a batch of {self.limits.max_batch} "
                "may have: raise resident, or lower max_batch"
            )
        self.access = Access(token)
        self.metrics = Metrics()
        self.uploads = Uploads(self.limits)
        self.saver = WriteBehind(store if isinstance(store, Store) else open_store(store))
        try:
            self._pool = StreamPool(
                model.net.to(device),
                len(model.classes),
                resident=resident,
                store=self.saver,
                save_every=save_every,
                **options,
            )
            check_same_model(self._pool)
        except BaseException:
            self.saver.close()
            raise
        shares = Shares()
        self.worker = Worker(self._pool, self.limits, torch.device(device), self.metrics, shares)
        self.decoders = Decoders(shares)
        self.gate = Gate(self.worker.line, shares)
        self.metrics.watch(self._readings)

    def app(self) -> ASGIApp:
        """What answers requests, once it was started."""
        from rotta.serve.app import build_app  # which knows this class

        return build_app(self)

    def start(self) -> None:
        """Begin to take work."""
        self.worker.start()

    def stop(self) -> bool:
        """Do what was asked, learn, save all; whether all could be saved."""
        self.decoders.close()
        self.worker.finish()
        self.saver.wait_for_room()  # all at once may be more than memory has room for
        try:
            self._pool.close()
        except Exception:  # what could be put is still written
            _LOG.exception("not all streams could be saved")
            self.saver.close()
            return False
        saved = self.saver.close()
        if not saved:
            _LOG.error("not all streams could be saved: those since their last save are lost")
        return saved

    @property
    def unsaved(self) -> int:
        """Streams that were due to be saved, and are not yet."""
        return self.saver.saving.waiting + self.worker.unsaved

    def _readings(self) -> list[Reading]:
        saving = self.saver.saving
        fails = int(saving.problem is not None)
        readings: list[Reading] = [
            ("rotta_queue_images", "Images and commands that wait.", self.worker.line.size),
            ("rotta_upload_bytes", "Being received or decoded.", self.uploads.held),
            ("rotta_streams_known", "In memory or in the store.", self.worker.known),
            ("rotta_streams_resident", "In memory.", self.worker.resident),
            ("rotta_streams_unsaved", "Newest state in memory only.", self.unsaved),
            ("rotta_unsaved_bytes", "Of states that wait to be saved.", saving.waiting_bytes),
            ("rotta_save_failures_total", "Attempts to save that failed.", saving.failures),
            ("rotta_saving_fails", "1 if the last attempt failed.", fails),
        ]
        if saving.age is not None:
            readings.append(("rotta_last_save_age_seconds", "Since the last write.", saving.age))
        return readings


def check_same_model(pool: StreamPool) -> None:
    """Refuse a store whose streams are of another model; one that can be used tells about all.

    Raises:
        ValueError: They are.
    """
    refusals = []
    for name in pool.names()[:_LOOKED_AT]:
        try:
            pool.info(name)
        except ValueError as error:
            refusals.append(error)
        else:
            return
    if refusals:
        raise ValueError(f"{refusals[0]}. Or give another --store")
