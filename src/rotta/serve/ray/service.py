"""The service on a Ray cluster: what listens here, and replicas anywhere."""

import logging
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from rotta.pool import StreamPool
from rotta.serve.access import Access
from rotta.serve.front import Front
from rotta.serve.limits import Limits
from rotta.serve.metrics import Metrics, Reading
from rotta.serve.ray.connection import connect, require_ray
from rotta.serve.ray.entrance import Entrance
from rotta.serve.ray.fenced_store import FencedStore
from rotta.serve.ray.gathering import Gathering
from rotta.serve.ray.keeper import Keeper
from rotta.serve.ray.replica import Replica
from rotta.serve.ray.router import Router
from rotta.serve.served_model import ServedModel
from rotta.serve.service import check_same_model
from rotta.serve.uploads import Uploads

_LOG = logging.getLogger("rotta.serve")
_TO_START = 120.0  # seconds
_TO_STOP = 60.0  # seconds
_QUICK_CALLS = 256  # to a replica, besides those that wait for predictions


class RayService:
    """A model that is served by several processes, on one machine or more.

    Replicas are actors of Ray, spread over its machines. They end with this process.

    Args:
        model: What predicts; it is sent to all replicas.
        store: ``redis://host:port/number``, which all machines reach by this address.
        replicas: How many there shall be, each on a core, or a GPU, of its own.
        address: Of a Ray cluster that this machine is part of; without it, Ray is started here.
        limits: On what is asked; those on what waits are for each replica.
        token: Which clients must know; without one, this machine alone is served.
        device: Where the replicas compute, ``cpu`` or ``cuda``.
        settings: The others of :class:`rotta.serve.Service`: ``save_every``, ``resident`` and
            the options of :class:`rotta.RoTTA`.

    Raises:
        ModuleNotFoundError: Ray or the package for Redis is not installed.
        ValueError: The store is no Redis or holds streams of another model, there is no such
            cluster, it has no room for so many replicas, or they refuse a setting.
        StoreError: The store cannot be opened.

    Example:
        >>> from rotta.serve import listen, load_model, run
        >>> service = RayService(
        ...     load_model("digits"), store="redis://10.0.0.1:6379/0", replicas=4, address="auto"
        ... )  # doctest: +SKIP
        >>> run(service, listen("127.0.0.1", 8000, token=None))  # doctest: +SKIP
        True
    """

    def __init__(
        self,
        model: ServedModel,
        *,
        store: str,
        replicas: int = 2,
        address: str | None = None,
        limits: Limits | None = None,
        token: str | None = None,
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        self.limits = limits or Limits()
        self._ray = require_ray()
        self._store = _opened(store, model, settings)
        self._connected_here = connect(address, replicas)
        generation = self._store.begin()
        self.router = Router(generation)
        """Who holds which stream."""
        self._access = Access(token)
        self.uploads = Uploads(self.limits)
        """What is being received."""
        self._metrics = Metrics()
        self._metrics.watch(self._readings)
        settings |= {"limits": self.limits, "token": token}
        start = _starter(model, store, generation, device, settings)
        self._keeper = Keeper(start, replicas, self.router, self._store, generation)
        try:
            self._keeper.gather(_TO_START)
        except BaseException:
            self._leave()
            raise

    def app(self) -> ASGIApp:
        """What answers requests, once it was started."""
        gathering = Gathering(self.router, self._store, self._metrics, self._keeper.wanted)
        entrance = Entrance(self.router, gathering, self._access, self.uploads)
        return Front(entrance, self._metrics)

    def start(self) -> None:
        """Look after the replicas, which are there already."""
        self._keeper.begin()

    def stop(self) -> bool:
        """Let replicas do what was asked and save all, and end them; whether all could be saved."""
        self._keeper.end()
        stopping = [member.actor.stop.remote() for member in self.router.members]
        try:
            saved = all(self._ray.get(stopping, timeout=_TO_STOP))
        except self._ray.exceptions.RayError:
            _LOG.exception("a replica could not be stopped in order: what it has not saved is lost")
            saved = False
        finally:
            self._leave()
        return saved

    def _leave(self) -> None:
        self._keeper.kill_all()
        self._store.close()
        if self._connected_here:
            self._ray.shutdown()

    def _readings(self) -> list[Reading]:
        return [
            ("rotta_upload_bytes", "Received, and not answered yet.", self.uploads.held),
            ("rotta_replicas_live", "Replicas that answer.", len(self.router.members)),
            ("rotta_replica_deaths_total", "Replicas that were lost.", self._keeper.deaths),
        ]


def _opened(url: str, model: ServedModel, settings: dict[str, Any]) -> FencedStore:
    """The store, if all replicas can share it and none would refuse what it holds."""
    if not url.startswith(("redis://", "rediss://")):
        raise ValueError(
            f"replicas cannot share {url}: with --engine ray, give --store redis://HOST:PORT/NUMBER"
        )
    of_pool = {key: value for key, value in settings.items() if key != "resident"}
    store = FencedStore(url)
    try:
        pool = StreamPool(model.net, len(model.classes), resident=1, store=store, **of_pool)
        check_same_model(pool)
    except BaseException:
        store.close()
        raise
    return store


def _starter(
    model: ServedModel, store: str, generation: int, device: str, settings: dict[str, Any]
) -> Callable[[str], Any]:
    """Starts a replica on a machine, or elsewhere if that is full, and does not wait for it."""
    ray = require_ray()
    on_gpu = device.startswith("cuda")
    limits: Limits = settings["limits"]
    actor = ray.remote(
        num_cpus=1,
        num_gpus=int(on_gpu),
        max_concurrency=limits.queue + _QUICK_CALLS,
    )(Replica)
    sent = ray.put(model)
    # Ray shows a replica only the GPU that it gives it, whatever its number is elsewhere
    settings = {**settings, "device": "cuda" if on_gpu else device}

    def start(node: str) -> Any:
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
        placed = actor.options(scheduling_strategy=near) if node else actor
        return placed.remote(sent, store, generation, settings)

    return start
