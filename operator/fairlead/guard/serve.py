"""The guard's metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from fairlead.guard.holds import HeldBy, Holds
from fairlead.pages import Answer, Page

_PREFIX = "fairlead_guard"


class HoldFigures(Collector):
    """What the guard holds, at each scrape."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def collect(self) -> Iterable[Metric]:
        """The metrics of docs/reference."""
        now = self._holds.now.values()
        senders = GaugeMetricFamily(f"{_PREFIX}_senders", "Senders with a cap, by what holds them.", labels=["by"])
        for by in HeldBy:
            senders.add_metric([by], sum(hold.by is by for hold in now))
        labels = ["namespace", "pod"]
        loose = GaugeMetricFamily(f"{_PREFIX}_sender_loose", "1 for a sender that can get past its cap.", labels=[*labels, "by"])
        cap = GaugeMetricFamily(f"{_PREFIX}_cap_bytes_per_second", "The cap in force.", labels=labels)
        packets = CounterMetricFamily(f"{_PREFIX}_dropped_packets", "Packets above the cap, where a program holds it.", labels=labels)
        dropped = CounterMetricFamily(f"{_PREFIX}_dropped_bytes", "Bytes above the cap, where a program holds it.", labels=labels)
        for uid, hold in self._holds.now.items():
            pod = [hold.sender.job.namespace, hold.sender.name]
            if hold.by in (HeldBy.RECEIVER, HeldBy.NOTHING):
                loose.add_metric([*pod, hold.by], 1)
            cap.add_metric(pod, hold.cap_bps / 8)
            counted = self._holds.dropped(uid)
            packets.add_metric(pod, counted.packets)
            dropped.add_metric(pod, counted.count_bytes)
        refusals = CounterMetricFamily(f"{_PREFIX}_rules_refused", "How often nft took none of the rules.", value=self._holds.refusals)
        return senders, loose, cap, packets, dropped, refusals


def metrics_page(holds: Holds) -> Page:
    """The figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(HoldFigures(holds))
    return lambda: Answer(200, generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)
