"""What Prometheus is told by a service of several replicas."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_COUNTED_AT_THE_ENTRANCE = (
    "rotta_requests",
    "rotta_request_seconds",
    "rotta_upload_bytes",
    "rotta_replica",
)


def with_replicas(entrance: str, replicas: Mapping[int, str]) -> str:
    """One text of several: requests as the entrance counts them, the rest for each replica.

    Args:
        entrance: What is counted where requests come in.
        replicas: What is counted in each replica, by its number.

    Example:
        >>> head = "# TYPE rotta_{0} counter\\n"
        >>> requests = (head + "rotta_{0}_total 3.0\\n").format("requests")
        >>> updates = (head + "rotta_{0}_total 2.0\\n").format("updates")
        >>> text = with_replicas(requests, {7: requests + updates})
        >>> [line for line in text.splitlines() if not line.startswith("#")]
        ['rotta_requests_total 3.0', 'rotta_updates_total{replica="7"} 2.0']
    """
    families: dict[str, Metric] = {}
    _add(families, entrance, {}, at_the_entrance=True)
    for number, text in replicas.items():
        _add(families, text, {"replica": str(number)}, at_the_entrance=False)
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry).decode()


def _add(
    families: dict[str, Metric], text: str, labels: dict[str, str], *, at_the_entrance: bool
) -> None:
    for family in text_string_to_metric_families(text):
        if family.name.startswith(_COUNTED_AT_THE_ENTRANCE) != at_the_entrance:
            continue
        merged = families.setdefault(
            family.name, Metric(family.name, family.documentation, family.type)
        )
        for sample in family.samples:
            merged.add_sample(sample.name, {**sample.labels, **labels}, sample.value)


class _Families(Collector):
    def __init__(self, families: dict[str, Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families.values()
