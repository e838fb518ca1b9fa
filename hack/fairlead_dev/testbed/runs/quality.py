"""Whether a run shows the path it was asked for, or a busy machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead_dev.testbed.scenario.expand import SingleFlow, single_flows
from fairlead_dev.testbed.scenario.model import Constant, Scenario


@dataclass(frozen=True, slots=True)
class QualityLimits:
    """Beyond these a run is disturbed. Packet times matter for a trace in ms; a probe request may be later, since it is timed anyway."""

    write_lateness_p99_us: float = 1000.0
    write_lateness_p99_share: float = 0.02
    """Of the RTT through a full queue, where that is more: a fast long path is stormy, and its RTTs vary by a hundred times that."""
    write_lateness_max_ms: float = 100.0
    """A hypervisor may take the processor away for 30 to 80 ms now and then: one such pause in a recording is what real hosts show too,
    and many of them are late by p99."""
    send_lateness_p99_ms: float = 5.0
    send_lateness_max_ms: float = 100.0
    burst_lateness_p99_ms: float = 5.0
    probe_start_late_ms: float = 50.0
    idle_spread_ms: float = 1.0
    idle_median_above_rtt_ms: float = 1.5
    answered_early_ms: float = 0.1
    """A reply that is sooner than the path allows tells of clocks that were read apart."""
    edge_late_ms: float = 100.0
    least_goodput_bps: float = 1448 * 8
    """A flow below a packet a second is no flow: its label would be wrong."""
    least_utilization: float = 0.3
    queue_rate_share: float = 0.05
    """How far the kernel's queue may be off the path's rate while it is never empty: it loses what a timer that is late would have sent."""
    least_busy_s: float = 1.0
    """Of such time; less does not tell."""


@dataclass(frozen=True, slots=True)
class QualityVerdict:
    """`faults` are sentences about what was wrong; a run without any is good."""

    faults: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether the run may be used."""
        return not self.faults


def judge(
    scenario: Scenario, emulator: Mapping[str, Any], probe: Mapping[str, Any], flows: list[Mapping[str, Any]], limits: QualityLimits
) -> QualityVerdict:
    """The verdict on a run from what its three parts reported (in the form of its manifest)."""
    faults = [
        *_emulator_faults(scenario, emulator, limits),
        *_probe_faults(scenario, probe, limits),
        *_flow_faults(scenario, flows, limits),
    ]
    return QualityVerdict(tuple(faults))


def _emulator_faults(scenario: Scenario, emulator: Mapping[str, Any], limits: QualityLimits) -> list[str]:
    faults = []
    longest_rtt_us = 1000 * (scenario.path.rtt_ms + scenario.path.full_queue_ms)
    lateness_p99_us = max(limits.write_lateness_p99_us, limits.write_lateness_p99_share * longest_rtt_us)
    for direction in ("ab", "ba"):
        stats = emulator[direction]
        if stats["packets_overrun"] != 0:
            faults.append(f"{direction}: the kernel dropped {stats['packets_overrun']} packets before the emulator read them")
        if stats["packets_dropped_memory"] or stats["packets_dropped_device"]:
            faults.append(f"{direction}: the emulator dropped packets that the path would have carried")
        lateness = stats["write_lateness_us"]
        if lateness["p99"] > lateness_p99_us:
            faults.append(f"{direction}: packets were written {lateness['p99']:.0f} us late (p99), at most {lateness_p99_us:.0f}")
        if lateness["max"] > limits.write_lateness_max_ms * 1000:
            faults.append(
                f"{direction}: a packet was written {lateness['max'] / 1000:.1f} ms late, at most {limits.write_lateness_max_ms:g}"
            )
        if stats.get("busy_s", 0.0) >= limits.least_busy_s:
            off_share = stats["busy_rate_bps"] / scenario.path.rate_bps - 1
            if abs(off_share) > limits.queue_rate_share:
                faults.append(
                    f"{direction}: the kernel's queue was {off_share:+.1%} off the rate while it was never empty, at most "
                    f"{limits.queue_rate_share:.0%} is right"
                )
    return faults


def _probe_faults(scenario: Scenario, probe: Mapping[str, Any], limits: QualityLimits) -> list[str]:
    faults = []
    planned = round(scenario.duration_s * scenario.probe.rate_hz)
    if probe["samples"] != planned:
        faults.append(f"the probe sent {probe['samples']} of {planned} requests")
    late = probe["send_lateness_ms"]
    if late is not None and late["p99"] > limits.send_lateness_p99_ms:
        faults.append(f"requests were sent {late['p99']:.1f} ms late (p99), at most {limits.send_lateness_p99_ms:g}")
    if late is not None and late["max"] > limits.send_lateness_max_ms:
        faults.append(f"a request was sent {late['max']:.1f} ms late, at most {limits.send_lateness_max_ms:g}")
    if scenario.probe.bursts:
        late = probe["bursts"]["send_lateness_ms"]
        if late["p99"] > limits.burst_lateness_p99_ms:
            faults.append(f"bursts were sent {late['p99']:.1f} ms late (p99), at most {limits.burst_lateness_p99_ms:g}")
    if probe["start_late_ms"] > limits.probe_start_late_ms:
        faults.append(f"the probe started {probe['start_late_ms']:.0f} ms late, at most {limits.probe_start_late_ms:g}")
    idle = probe["idle"]["rtt_ms"]
    if idle is None:
        faults.append("the idle path answered no request")
    else:
        spread_ms = idle["p95"] - idle["min"]
        if spread_ms > limits.idle_spread_ms:
            faults.append(f"the idle path's RTT spread by {spread_ms:.2f} ms (p95 - min), at most {limits.idle_spread_ms:g}")
        above_ms = idle["p50"] - scenario.path.rtt_ms
        if not 0 <= above_ms <= limits.idle_median_above_rtt_ms:
            faults.append(f"the idle path's RTT is {above_ms:+.2f} ms off, 0 to {limits.idle_median_above_rtt_ms:g} is right")
    if probe["answered"] == 0:
        faults.append("no request of the recording was answered")
    elif (early_ms := scenario.path.rtt_ms - probe["rtt_ms"]["min"]) > limits.answered_early_ms:
        faults.append(f"a request was answered {early_ms:.2f} ms sooner than the path allows, at most {limits.answered_early_ms:g}")
    return faults


def _flow_faults(scenario: Scenario, flows: list[Mapping[str, Any]], limits: QualityLimits) -> list[str]:
    planned = single_flows(scenario)
    if [flow["name"] for flow in flows] != [single.name for single in planned]:
        return ["the flows that ran are not those planned"]
    faults = [fault for single, flow in zip(planned, flows, strict=True) for fault in _one_flow_faults(single, flow, limits)]
    always_on_bps: dict[str, float] = {"forward": 0.0, "reverse": 0.0}
    greedy = set()
    for single, flow in zip(planned, flows, strict=True):
        always_on_bps[single.flow.direction] += flow["goodput_bps"]
        if single.flow.protocol == "tcp" and isinstance(single.flow.pattern, Constant) and _spans(scenario, single):
            greedy.add(single.flow.direction)
    if scenario.path.loss_ratio == 0 and scenario.path.police is None:
        for direction in sorted(greedy):
            share = always_on_bps[direction] / scenario.path.rate_bps
            if share < limits.least_utilization:
                faults.append(
                    f"{direction}: greedy flows carried {share:.0%} of the rate, at least {limits.least_utilization:.0%} were expected"
                )
    return faults


def _spans(scenario: Scenario, single: SingleFlow) -> bool:
    return single.start_s <= 0 and single.stop_s >= scenario.duration_s


def _one_flow_faults(single: SingleFlow, flow: Mapping[str, Any], limits: QualityLimits) -> list[str]:
    faults = [f"{single.name}: {failure}" for failure in flow["failures"]]
    wanted = single.flow.congestion_control
    if single.flow.protocol == "tcp" and flow["congestion_controls"] != [wanted]:
        seen = ", ".join(flow["congestion_controls"]) or "none"
        faults.append(f"{single.name}: the sockets' congestion control was {seen}, {wanted} was asked for")
    if flow["goodput_bps"] < limits.least_goodput_bps and single.stop_s > 0:
        faults.append(f"{single.name}: carried {flow['goodput_bps']:.0f} b/s, less than a packet a second")
    late_ms = max((1000 * (edge["actual_s"] - edge["planned_s"]) for edge in flow["edges"]), default=0.0)
    if late_ms > limits.edge_late_ms:
        faults.append(f"{single.name}: went on or off {late_ms:.0f} ms late, at most {limits.edge_late_ms:g}")
    return faults
