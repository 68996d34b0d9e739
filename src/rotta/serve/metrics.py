"""What Prometheus is told."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rotta.serve.worker import Turn

Reading = tuple[str, str, float]
"""A name, what it means, and its value now."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """All counters of one server, in a registry of their own.

    Example:
        >>> metrics = Metrics()
        >>> metrics.answered("predict", 200, 0.004)
        >>> 'rotta_requests_total{route="predict",status="200"} 1.0' in metrics.text()
        True
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "rotta_requests", "Answers, by status.", ("route", "status"), registry=registry
        )
        self._latency = Histogram(
            "rotta_request_seconds",
            "From the first byte of a request to the last of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch = Histogram(
            "rotta_batch_images",
            "Images that went through the network together.",
            buckets=_SIZES,
            registry=registry,
        )
        self._predicting = Histogram(
            "rotta_predict_seconds",
            "Of each turn, until all were answered.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._learning = Histogram(
            "rotta_learn_seconds",
            "Of each turn, after that.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._updates = Counter("rotta_updates", "Streams updated.", registry=registry)
        self._alarms = Counter(
            "rotta_guard_alarms", "Times that a guard stepped in.", registry=registry
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        self._requests.labels(route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def turn(self, turn: Turn) -> None:
        """A turn of the worker is over."""
        if turn.requests:  # some only learn
            self._batch.observe(turn.images)
            self._predicting.observe(turn.predicting)
        self._learning.observe(turn.learning)
        self._updates.inc(turn.updates)
        self._alarms.inc(turn.alarms)

    def watch(self, read: Callable[[], list[Reading]]) -> None:
        """Show numbers that are read when somebody looks; a name in ``_total`` only goes up."""
        self._registry.register(_Readings(read))

    def text(self) -> str:
        """In the format that Prometheus reads."""
        return generate_latest(self._registry).decode()


class _Readings(Collector):
    def __init__(self, read: Callable[[], list[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        for name, about, value in self._read():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(name, about, value=value)
