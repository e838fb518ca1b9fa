"""What a path must show, and how far a run is from it; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead_dev.testbed.scenario.model import MTU_BYTES, Scenario

TCP_PAYLOAD_BYTES = 1448
UDP_PAYLOAD_BYTES = MTU_BYTES - 28


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity of one run. `tolerance` is what a run on an idle machine keeps to, in the quantity's own unit."""

    scenario: str
    quantity: str
    unit: str
    expected: float
    measured: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether theory and measurement agree."""
        return abs(self.measured - self.expected) <= self.tolerance


def compare(scenario: Scenario, manifest: Mapping[str, Any]) -> list[Comparison]:
    """What theory predicts for `scenario` beside what its run showed. Which quantities depends on the traffic."""
    idle_ms = manifest["probe"]["idle"]["rtt_ms"]["p50"]
    found = [Comparison(scenario.name, "idle RTT", "ms", scenario.path.rtt_ms, idle_ms, 1.5)]
    protocols = {flow.protocol for flow in scenario.flows}
    if protocols == {"tcp"}:
        found += _greedy_tcp(scenario, manifest)
    if protocols == {"udp"} and scenario.path.is_plain:
        found += _udp(scenario, manifest)
    return found


def _greedy_tcp(scenario: Scenario, manifest: Mapping[str, Any]) -> list[Comparison]:
    path, forward = scenario.path, manifest["emulator"]["ab"]
    full_mbps = path.rate_bps / 1e6 * TCP_PAYLOAD_BYTES / MTU_BYTES
    mbps = sum(flow["goodput_bps"] for flow in manifest["flows"]) / 1e6
    found = [Comparison(scenario.name, "goodput of a full link", "Mb/s", full_mbps, mbps, 0.05 * full_mbps)]
    if path.loss_ratio == 0 and path.is_plain and forward["packets_dropped_buffer"]:
        # What the probe saw against what the emulator held, at the depth that the queue was below for 95 % of the time.
        long_ms = manifest["probe"]["rtt_ms"]["p95"]
        expected_ms = path.rtt_ms + manifest["queues"]["forward_bytes"]["p95"] * 8 / path.rate_bps * 1000
        # The kernel's queue does not say how long it has been.
        if (peak_bytes := forward["queue_bytes_peak"]) is not None:
            found.append(Comparison(scenario.name, "longest queue", "kB", path.queue_bytes / 1e3, peak_bytes / 1e3, MTU_BYTES / 1e3))
        found.append(Comparison(scenario.name, "RTT through a long queue", "ms", expected_ms, long_ms, 2.0 + 0.02 * path.full_queue_ms))
    return found


def _udp(scenario: Scenario, manifest: Mapping[str, Any]) -> list[Comparison]:
    path, forward = scenario.path, manifest["emulator"]["ab"]
    offered_bps = sum((flow.rate_bps or 0) * flow.count for flow in scenario.flows)
    mbps = sum(flow["goodput_bps"] for flow in manifest["flows"]) / 1e6
    carried_mbps = min(offered_bps, path.rate_bps) * (1 - path.loss_ratio) / 1e6 * UDP_PAYLOAD_BYTES / MTU_BYTES
    found = [Comparison(scenario.name, "UDP delivered", "Mb/s", carried_mbps, mbps, 0.02 * carried_mbps)]
    if path.loss_ratio:
        through = forward["packets_in"] - forward["packets_dropped_buffer"]
        lost = forward["packets_dropped_loss"] / max(1, through)
        # Four standard deviations of the binomial: one run in 16,000 is beyond by chance.
        spread = 4 * math.sqrt(path.loss_ratio * (1 - path.loss_ratio) / max(1, through))
        found.append(Comparison(scenario.name, "random loss", "ratio", path.loss_ratio, lost, spread))
    if offered_bps > path.rate_bps:
        overflow = 1 - path.rate_bps / offered_bps
        dropped = forward["packets_dropped_buffer"] / max(1, forward["packets_in"])
        found.append(Comparison(scenario.name, "overflow of the buffer", "ratio", overflow, dropped, 0.03))
    return found
