"""Prometheus metrics of the sidecar."""

import math
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from fairlead_advisor.decide.optimizer import CountTrial, Observation
from fairlead_advisor.probe.session import Counters
from fairlead_advisor.probe.summary import Summary
from fairlead_advisor.record.published import Published

_MS_PER_S = 1000
_BITS_PER_BYTE = 8


class AdvisorMetrics:
    """One sidecar's metrics. Gauges without a measurement are NaN, never a plausible zero."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._rtt = self._gauge("rtt_seconds", "Median round-trip time of the probe before the transfer.")
        self._rtt_minimum = self._gauge("rtt_minimum_seconds", "Smallest round-trip time of the probe before the transfer.")
        self._jitter = self._gauge("jitter_seconds", "Mean absolute difference between consecutive round-trip times of the probe.")
        self._loss = self._gauge("loss_ratio", "Share of the probe's requests that were not answered in time.")
        self._sent = Counter("fairlead_advisor_probes_sent", "Echo requests sent.", registry=self._registry)
        self._received = Counter("fairlead_advisor_probes_received", "Echo replies that became samples.", registry=self._registry)
        self._ignored = Counter(
            "fairlead_advisor_datagrams_ignored", "Datagrams that were no sample, by cause.", ["cause"], registry=self._registry
        )
        self._info = Gauge(
            "fairlead_advisor_decision_info",
            "1 for the decision that stands.",
            ["protocol", "congestion_control", "reason", "abstained"],
            registry=self._registry,
        )
        self._streams = self._gauge("decision_streams", "Stream count of the decision that stands.")
        self._applied = self._gauge("decision_applied", "1 if the mover has the decision in force, 0 if not.")
        self._mover_up = self._gauge("mover_up", "1 if the mover answered the last question for its statistics, 0 if not.")
        self._transfer_rtt = self._gauge("transfer_rtt_seconds", "Mean of the smoothed round-trip times of the transfer's streams.")
        self._transfer_streams = self._gauge("transfer_streams", "Streams that the mover has open.")
        self._goodput = self._gauge("transfer_goodput_bytes_per_second", "Payload acknowledged over all streams.")
        self._transfer_loss = self._gauge("transfer_loss_ratio", "Retransmitted share of the segments of all streams.")
        self._busy = self._gauge("path_busy_ratio", "Share of RTT samples during the transfer that found a queue.")
        self._held_back = Gauge(
            "fairlead_advisor_transfer_held_back_ratio",
            "Share of the time under way in which a buffer alone held the streams back.",
            ["by"],
            registry=self._registry,
        )
        self._trials = Counter(
            "fairlead_advisor_stream_trials", "Stream counts that were tried, by how it ended.", ["outcome"], registry=self._registry
        )
        self._looks = Counter(
            "fairlead_advisor_looks", "Looks at the path while data stood still, by outcome.", ["outcome"], registry=self._registry
        )
        self._quiet = Counter("fairlead_advisor_quiet_seconds", "Time that data stood still for looks.", registry=self._registry)
        self._switches = Counter(
            "fairlead_advisor_switches", "Congestion control switched on live sockets.", ["to", "undo"], registry=self._registry
        )

    def probed(self, summary: Summary, counters: Counters) -> None:
        """Records a probe's outcome."""
        self._sent.inc(summary.samples)
        self._received.inc(summary.answered)
        for cause in ("foreign", "duplicate", "late"):
            self._ignored.labels(cause).inc(getattr(counters, cause))
        for gauge, value_ms in (
            (self._rtt, summary.rtt_median_ms),
            (self._rtt_minimum, summary.rtt_minimum_ms),
            (self._jitter, summary.jitter_ms),
        ):
            gauge.set(float("nan") if value_ms is None else value_ms / _MS_PER_S)
        self._loss.set(float("nan") if summary.loss_ratio is None else summary.loss_ratio)

    def decided(self, published: Published) -> None:
        """Replaces the current decision."""
        decision = published.decision
        self._info.clear()
        self._info.labels(decision.protocol, decision.congestion_control, decision.reason, str(decision.abstained).lower()).set(1)
        self._streams.set(decision.streams)
        self._applied.set(published.applied)

    def transfer(self, streams: int | None, rtts_s: Sequence[float] = ()) -> None:
        """Records how many streams the mover has open and their smoothed RTTs; None when it did not answer."""
        self._mover_up.set(streams is not None)
        self._transfer_streams.set(float("nan") if streams is None else streams)
        self._transfer_rtt.set(math.fsum(rtts_s) / len(rtts_s) if rtts_s else float("nan"))

    def observed(self, seen: Observation) -> None:
        """Records what the last second or so of the transfer was like."""
        self._goodput.set(seen.goodput_bps / _BITS_PER_BYTE)
        self._transfer_loss.set(seen.loss_ratio)
        self._busy.set(float("nan") if seen.busy_ratio is None else seen.busy_ratio)

    def held_back(self, send_buffer_ratio: float, receive_window_ratio: float) -> None:
        """Records which buffers held the streams back during the last second or so."""
        self._held_back.labels("send_buffer").set(send_buffer_ratio)
        self._held_back.labels("receive_window").set(receive_window_ratio)

    def tried(self, outcome: CountTrial) -> None:
        """Records how a trial of another stream count ended."""
        self._trials.labels("kept" if outcome.kept == outcome.tried.streams else "reverted").inc()

    def switched(self, to: str, *, undo: bool) -> None:
        """Records a switch of congestion control."""
        self._switches.labels(to, str(undo).lower()).inc()

    def paused_probe(self, quiet_s: float, outcome: str) -> None:
        """Records a paused probe: `outcome` is news, sure, unsure or failed."""
        self._looks.labels(outcome).inc()
        self._quiet.inc(quiet_s)

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(f"fairlead_advisor_{name}", text, registry=self._registry)
        gauge.set(float("nan"))
        return gauge
