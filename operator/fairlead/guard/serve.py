"""The guard's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from fairlead.guard.holds import HeldBy, Holds
from fairlead.metrics import BITS_PER_BYTE, MetricCatalogue
from fairlead.pages import Answer, Page

GUARD_METRICS: Final = MetricCatalogue("fairlead_guard")
_SENDERS = GUARD_METRICS.gauge("senders", "Senders with a cap, by what holds them.", "by")
_LOOSE = GUARD_METRICS.gauge("sender_loose", "1 for a sender that can get past its cap.", "namespace", "pod", "by")
_CAP = GUARD_METRICS.gauge("cap_bytes_per_second", "The cap in force.", "namespace", "pod")
_DROPPED_PACKETS = GUARD_METRICS.counter(
    "dropped_packets_total", "Packets above the cap that were dropped, where a program holds it.", "namespace", "pod"
)
_DROPPED_BYTES = GUARD_METRICS.counter(
    "dropped_bytes_total", "Bytes above the cap that were dropped, where a program holds it.", "namespace", "pod"
)
_RULES_REFUSED = GUARD_METRICS.counter("rules_refused_total", "How often nft took none of the rules.")


class HoldFigures(Collector):
    """What the guard holds, at each scrape."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def collect(self) -> Iterable[Metric]:
        """The metrics of `GUARD_METRICS`."""
        now = self._holds.now.values()
        senders = _SENDERS.gauges()
        for by in HeldBy:
            senders.add_metric([by], sum(hold.by is by for hold in now))
        loose, cap, packets, dropped = _LOOSE.gauges(), _CAP.gauges(), _DROPPED_PACKETS.counters(), _DROPPED_BYTES.counters()
        for uid, hold in self._holds.now.items():
            pod = [hold.sender.job.namespace, hold.sender.name]
            if hold.by in (HeldBy.RECEIVER, HeldBy.NOTHING):
                loose.add_metric([*pod, hold.by], 1)
            cap.add_metric(pod, hold.cap_bps / BITS_PER_BYTE)
            counted = self._holds.dropped(uid)
            packets.add_metric(pod, counted.packets)
            dropped.add_metric(pod, counted.count_bytes)
        refusals = _RULES_REFUSED.counters()
        refusals.add_metric([], self._holds.refusals)
        return senders, loose, cap, packets, dropped, refusals


def metrics_page(holds: Holds) -> Page:
    """The figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(HoldFigures(holds))
    return lambda: Answer(200, generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)
