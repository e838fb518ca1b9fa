"""Which runs go side by side, and how long all of them will take."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_testbed.runs.record import length_s
from fairlead_testbed.scenario.model import OnOff, Scenario

IDLE_COST_MBPS = 2.0
"""What a run costs beside its traffic (probe, echo, the emulator's wake-ups), as traffic."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the machine bears: traffic emulated at a time, and runs at a time."""

    mbps: float
    runs: int


def cost_mbps(scenario: Scenario) -> float:
    """The traffic that the emulator will have to carry: greedy flows fill their direction."""
    total_bps = 0.0
    for direction in ("forward", "reverse"):
        flows = [flow for flow in scenario.flows if flow.direction == direction]
        if any(flow.protocol == "tcp" for flow in flows):
            total_bps += scenario.path.rate_bps
        else:
            total_bps += min(scenario.path.rate_bps, sum(_mean_udp_bps(flow.rate_bps or 0, flow.pattern) * flow.count for flow in flows))
    return IDLE_COST_MBPS + total_bps / 1e6


def _mean_udp_bps(rate_bps: int, pattern: object) -> float:
    return rate_bps * pattern.on_s / (pattern.on_s + pattern.off_s) if isinstance(pattern, OnOff) else float(rate_bps)


def next_to_start(waiting: Sequence[Scenario], running: Sequence[Scenario], budget: Budget) -> int | None:
    """The index in `waiting` of the run to start now: the first that fits. One that costs more than the budget runs alone."""
    if len(running) >= budget.runs:
        return None
    spent_mbps = sum(cost_mbps(scenario) for scenario in running)
    fitting = (index for index, scenario in enumerate(waiting) if not running or spent_mbps + cost_mbps(scenario) <= budget.mbps)
    return next(fitting, None)


def estimate_s(scenarios: Sequence[Scenario], budget: Budget) -> float:
    """How long all of them take, by playing the packing through."""
    waiting = list(scenarios)
    running: list[tuple[float, int, Scenario]] = []
    now_s, order = 0.0, 0
    while waiting or running:
        while (index := next_to_start(waiting, [scenario for *_, scenario in running], budget)) is not None:
            scenario = waiting.pop(index)
            heapq.heappush(running, (now_s + length_s(scenario), order, scenario))
            order += 1
        now_s = heapq.heappop(running)[0]
    return now_s
