"""What an agent serves: the report with the counters of this moment as JSON, and the same figures as metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from fairlead.agent.files import HostFiles
from fairlead.agent.interfaces import counters_of
from fairlead.agent.loop import Agent
from fairlead.api.shared.quantity import parse_rate
from fairlead.metrics import BITS_PER_BYTE, MetricCatalogue
from fairlead.pages import JSON, Answer, Page

VERSION: Final = 1
FRESH_SECONDS: Final = 0.1
"""InterfaceCounters are not read more often, however often somebody asks."""

NODE_METRICS: Final = MetricCatalogue("fairlead_node")
_TRANSMIT_BYTES = NODE_METRICS.counter("transmit_bytes_total", "Bytes that an interface has sent.", "interface")
_RECEIVE_BYTES = NODE_METRICS.counter("receive_bytes_total", "Bytes that an interface has received.", "interface")
_CARRIER = NODE_METRICS.gauge("carrier", "1 for an interface that is up and whose link works, otherwise 0.", "interface")
_SPEED = NODE_METRICS.gauge("speed_bytes_per_second", "Speed of an interface; absent where it has none.", "interface")
_STORAGE_FREE = NODE_METRICS.gauge("storage_free_bytes", "Free space of a file system in nodeAgent.storagePaths.", "path")
_STORAGE_SIZE = NODE_METRICS.gauge("storage_size_bytes", "Size of a file system in nodeAgent.storagePaths.", "path")
_REPORT_WRITES = NODE_METRICS.counter("report_writes_total", "Reports that were sent to the API server.")
_REPORT_FAILURES = NODE_METRICS.counter("report_failures_total", "Reports that the API server did not take.")


class InterfaceCounters:
    """The counters of the interfaces that the agent has found, and when they were read."""

    def __init__(
        self, agent: Agent, files: HostFiles, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._agent = agent
        self._files = files
        self._monotonic = monotonic
        self._wall = wall
        self._read_at: dict[str, float] = {}
        self._counters: dict[str, dict[str, int]] = {}

    def read(self) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, float]]:
        """Bytes by interface and way, and `monotonic_seconds` and `wall_seconds` of the reading."""
        now = self._monotonic()
        if not self._read_at or now >= self._read_at["monotonic_seconds"] + FRESH_SECONDS:
            found = self._agent.found
            names = [each.name for each in found.interfaces] if found is not None else []
            self._read_at = {"monotonic_seconds": round(now, 6), "wall_seconds": round(self._wall(), 6)}
            read = ((name, counters_of(self._files, name)) for name in names)
            self._counters = {name: counters for name, counters in read if counters is not None}
        return self._counters, self._read_at


def node_page(node: str, agent: Agent, counters: InterfaceCounters) -> Page:
    """`GET /v1/node`; 503 before the first look."""

    def page() -> Answer:
        if agent.found is None:
            return Answer(503, b'{"error": "the node has not been looked at yet"}\n', JSON)
        by_interface, read_at = counters.read()
        body: dict[str, Any] = {"version": VERSION, "node": node, **agent.found.to_object(), "counters": by_interface, "read_at": read_at}
        return Answer(200, json.dumps(body, separators=(",", ":")).encode() + b"\n", JSON)

    return page


class NodeFigures(Collector):
    """What an agent has found, at each scrape."""

    def __init__(self, agent: Agent, counters: InterfaceCounters) -> None:
        self._agent = agent
        self._counters = counters

    def collect(self) -> Iterable[Metric]:
        """The metrics of `NODE_METRICS`."""
        found, by_interface = self._agent.found, self._counters.read()[0]
        sent, received = _TRANSMIT_BYTES.counters(), _RECEIVE_BYTES.counters()
        for name, counters in by_interface.items():
            sent.add_metric([name], counters["transmit_bytes"])
            received.add_metric([name], counters["receive_bytes"])
        carrier, speed = _CARRIER.gauges(), _SPEED.gauges()
        for interface in found.interfaces if found is not None else ():
            if interface.carrier is not None:
                carrier.add_metric([interface.name], int(interface.carrier))
            if interface.rate is not None:
                speed.add_metric([interface.name], parse_rate(interface.rate) / BITS_PER_BYTE)
        free, size = _STORAGE_FREE.gauges(), _STORAGE_SIZE.gauges()
        for storage in found.storage if found is not None else ():
            free.add_metric([storage.path], storage.free_bytes)
            size.add_metric([storage.path], storage.total_bytes)
        writes, failed = _REPORT_WRITES.counters(), _REPORT_FAILURES.counters()
        writes.add_metric([], self._agent.writes)
        failed.add_metric([], self._agent.failed_writes)
        return sent, received, carrier, speed, free, size, writes, failed


def metrics_page(agent: Agent, counters: InterfaceCounters) -> Page:
    """The figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(NodeFigures(agent, counters))
    return lambda: Answer(200, generate_latest(registry))
