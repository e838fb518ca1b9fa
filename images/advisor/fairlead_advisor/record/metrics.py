"""Prometheus metrics of the sidecar."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, disable_created_metrics, generate_latest

from fairlead_advisor.decide.model import Decision
from fairlead_advisor.decide.optimizer import CountTrial, Observation
from fairlead_advisor.decide.rule import CANDIDATES
from fairlead_advisor.probe.session import Counters
from fairlead_advisor.probe.summary import Summary
from fairlead_advisor.record.published import Published

# Beside each counter there would be a series with the time of its making, which nobody reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

_MS_PER_S = 1000
_BITS_PER_BYTE = 8
_PREFIX = "fairlead_advisor_"
_CAUSES: Final = ("foreign", "duplicate", "late")
_LOOK_OUTCOMES: Final = ("news", "sure", "unsure", "failed")


class SidecarMetric(NamedTuple):
    """One metric, its name without the prefix; docs/reference/metrics.md is generated from these."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in the exposition."""
        return _PREFIX + self.name


ADVISOR_METRICS: Final = (
    SidecarMetric("rtt_seconds", "gauge", "Median round-trip time of the probe before the transfer."),
    SidecarMetric("rtt_minimum_seconds", "gauge", "Smallest round-trip time of the probe before the transfer."),
    SidecarMetric("jitter_seconds", "gauge", "Mean absolute difference between consecutive round-trip times of the probe."),
    SidecarMetric("loss_ratio", "gauge", "Share of the probe's requests that were not answered in time."),
    SidecarMetric("probes_sent_total", "counter", "Echo requests sent."),
    SidecarMetric("probes_received_total", "counter", "Echo replies that became samples."),
    SidecarMetric("datagrams_ignored_total", "counter", "Datagrams that were no sample, by cause.", ("cause",)),
    SidecarMetric("decision_info", "gauge", "1 for the decision that stands.", ("protocol", "congestion_control", "reason", "abstained")),
    SidecarMetric(
        "decisions_total",
        "counter",
        "Decisions, by reason and likeliest class of the background, None where nothing was classified.",
        ("reason", "background"),
    ),
    SidecarMetric("decision_confidence_ratio", "gauge", "Confidence of the classification that the decision rests on."),
    SidecarMetric(
        "decision_regret_ratio",
        "gauge",
        "Expected share lost by the choice in force against the best of all that were weighed, those that are not offered included.",
    ),
    SidecarMetric("background_probability_ratio", "gauge", "Probability of each class of the background.", ("background",)),
    SidecarMetric("decision_streams", "gauge", "Stream count of the decision that stands."),
    SidecarMetric("decision_applied", "gauge", "1 if the mover has the decision in force, 0 if not."),
    SidecarMetric("mover_up", "gauge", "1 if the mover answered the last question for its statistics, 0 if not."),
    SidecarMetric("transfer_rtt_seconds", "gauge", "Mean of the smoothed round-trip times of the transfer's streams."),
    SidecarMetric("transfer_streams", "gauge", "Streams that the mover has open."),
    SidecarMetric("transfer_goodput_bytes_per_second", "gauge", "Payload acknowledged over all streams."),
    SidecarMetric("transfer_loss_ratio", "gauge", "Retransmitted share of the segments of all streams."),
    SidecarMetric("path_busy_ratio", "gauge", "Share of RTT samples during the transfer that found a queue."),
    SidecarMetric(
        "transfer_held_back_ratio", "gauge", "Share of the time under way in which a buffer alone held the streams back.", ("by",)
    ),
    SidecarMetric("stream_trials_total", "counter", "Stream counts that were tried, by how it ended.", ("outcome",)),
    SidecarMetric("looks_total", "counter", "Looks at the path while data stood still, by outcome.", ("outcome",)),
    SidecarMetric("quiet_seconds_total", "counter", "Time that data stood still for looks: what they cost."),
    SidecarMetric("switches_total", "counter", "Congestion control switched on live sockets.", ("to", "undo")),
)


class AdvisorMetrics:
    """One sidecar's metrics. Gauges without a measurement are NaN, never a plausible zero."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._rtt = self._gauge("rtt_seconds")
        self._rtt_minimum = self._gauge("rtt_minimum_seconds")
        self._jitter = self._gauge("jitter_seconds")
        self._loss = self._gauge("loss_ratio")
        self._sent = self._counter("probes_sent_total")
        self._received = self._counter("probes_received_total")
        self._ignored = self._counter("datagrams_ignored_total", *((cause,) for cause in _CAUSES))
        self._info = self._gauge("decision_info")
        self._decisions = self._counter("decisions_total")
        self._confidence = self._gauge("decision_confidence_ratio")
        self._regret = self._gauge("decision_regret_ratio")
        self._probabilities = self._gauge("background_probability_ratio")
        self._streams = self._gauge("decision_streams")
        self._applied = self._gauge("decision_applied")
        self._mover_up = self._gauge("mover_up")
        self._transfer_rtt = self._gauge("transfer_rtt_seconds")
        self._transfer_streams = self._gauge("transfer_streams")
        self._goodput = self._gauge("transfer_goodput_bytes_per_second")
        self._transfer_loss = self._gauge("transfer_loss_ratio")
        self._busy = self._gauge("path_busy_ratio")
        self._held_back = self._gauge("transfer_held_back_ratio")
        self._trials = self._counter("stream_trials_total", ("kept",), ("reverted",))
        self._looks = self._counter("looks_total", *((outcome,) for outcome in _LOOK_OUTCOMES))
        self._quiet = self._counter("quiet_seconds_total")
        self._switches = self._counter("switches_total", *((to, undo) for to in CANDIDATES for undo in ("false", "true")))
        self._last_decision: tuple[object, str] | None = None

    def probed(self, summary: Summary, counters: Counters) -> None:
        """Records a probe's outcome."""
        self._sent.inc(summary.samples)
        self._received.inc(summary.answered)
        for cause in _CAUSES:
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
        background = decision.background.likeliest[0] if decision.background is not None else "None"
        self._info.clear()
        self._info.labels(decision.protocol, decision.congestion_control, decision.reason, str(decision.abstained).lower()).set(1)
        # A decision is published again when the mover has it in force, and when a setting changes.
        if self._last_decision != (this := (published.decided_at, decision.reason.value)):
            self._decisions.labels(decision.reason, background).inc()
            self._last_decision = this
        self._confidence.set(float("nan") if decision.background is None else decision.background.confidence)
        self._probabilities.clear()
        if decision.background is not None:
            for name, probability in decision.background.probabilities.items():
                self._probabilities.labels(name).set(probability)
        self._regret.set(_regret(decision))
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

    def _counter(self, name: str, *known: tuple[str, ...]) -> Counter:
        """A counter, at 0 for the `known` label values: Prometheus sees no increase in a first sample."""
        described = _described(name)
        made = Counter(described.full_name.removesuffix("_total"), described.help, described.labels, registry=self._registry)
        for values in known:
            made.labels(*values)
        return made

    def _gauge(self, name: str) -> Gauge:
        described = _described(name)
        gauge = Gauge(described.full_name, described.help, described.labels, registry=self._registry)
        if not described.labels:
            gauge.set(float("nan"))
        return gauge


def _described(name: str) -> SidecarMetric:
    return next(described for described in ADVISOR_METRICS if described.name == name)


def _regret(decision: Decision) -> float:
    """Best expected utility less that of the choice, both minus an expected loss of share; NaN where nothing was weighed."""
    if decision.utility is None:
        return float("nan")
    weighed = [other.utility for other in decision.rejected if other.utility is not None]
    return max(0.0, max(weighed, default=decision.utility) - decision.utility)
