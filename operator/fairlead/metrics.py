"""Descriptions of metrics: each program declares its own in a catalogue, which its exposition and docs/reference/metrics.md follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

# Beside each counter and histogram there would be a series with the time of its making, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

Kind = Literal["counter", "gauge", "histogram"]
BITS_PER_BYTE: Final = 8
"""Metrics are in bytes, everything else in bits."""


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """One metric under its whole name, that of a counter with `_total`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def counter(self, registry: CollectorRegistry, known: Iterable[tuple[str, ...]] = ()) -> Counter:
        """A counter that is kept in `registry`, at 0 for the `known` label values: Prometheus sees no increase in a first sample."""
        made = Counter(self.name.removesuffix("_total"), self.help, self.labels, registry=registry)
        for values in known:
            made.labels(*values)
        return made

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        """A gauge that is kept in `registry`."""
        return Gauge(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry, buckets: Sequence[float]) -> Histogram:
        """A histogram that is kept in `registry`."""
        return Histogram(self.name, self.help, self.labels, registry=registry, buckets=buckets)

    def family(self) -> Metric:
        """An empty family of its kind, counter or gauge."""
        return self.counters() if self.kind == "counter" else self.gauges()

    def counters(self) -> CounterMetricFamily:
        """An empty family, for counts that are read at each scrape."""
        return CounterMetricFamily(self.name.removesuffix("_total"), self.help, labels=self.labels)

    def gauges(self) -> GaugeMetricFamily:
        """An empty family, for values that are read at each scrape."""
        return GaugeMetricFamily(self.name, self.help, labels=self.labels)


class MetricCatalogue:
    """The metrics of one program, all named `<prefix>_…`, in the order in which they are declared."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._descriptions: list[MetricDescription] = []

    def __iter__(self) -> Iterator[MetricDescription]:
        return iter(self._descriptions)

    def counter(self, name: str, help_text: str, *labels: str) -> MetricDescription:
        """Declares a counter; `name` ends in `_total`."""
        return self._add(name, "counter", help_text, labels)

    def gauge(self, name: str, help_text: str, *labels: str) -> MetricDescription:
        """Declares a gauge."""
        return self._add(name, "gauge", help_text, labels)

    def histogram(self, name: str, help_text: str, *labels: str) -> MetricDescription:
        """Declares a histogram."""
        return self._add(name, "histogram", help_text, labels)

    def _add(self, name: str, kind: Kind, help_text: str, labels: tuple[str, ...]) -> MetricDescription:
        described = MetricDescription(f"{self._prefix}_{name}", kind, help_text, labels)
        if any(known.name == described.name for known in self._descriptions):
            raise ValueError(f"{described.name} is declared twice")
        self._descriptions.append(described)
        return described
