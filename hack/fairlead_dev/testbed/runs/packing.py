"""Which runs go side by side, and how long all of them will take."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairlead_dev.testbed.runs.record import length_s
from fairlead_dev.testbed.scenario.model import OnOff, Scenario

IDLE_CORES = 0.05
"""What a run without traffic takes of a processor core: probe, echo, namespaces, the runner's questions."""
BUSY_CORES = 0.05
"""What wake-ups take more as soon as there is traffic, at any rate."""
CORES_PER_GBPS = 1.2
"""What packets take more. All three were measured with six to nine runs at 20 to 60 Mb/s, and two at 400 to 500 Mb/s, side by side."""

KERNEL_CORES_PER_GBPS = 1.3
"""What they take more with the kernel's queue: two more hops and a timer each. One run at 300 Mb/s took 0.4 cores more."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What the machine bears at a time: processor cores spent on runs, and runs."""

    cores: float
    runs: int
    alone_cores: float = math.inf
    """A run that takes more goes alone: beside another one the emulator would be late on its path."""


def carried_bps(scenario: Scenario) -> float:
    """The traffic that the emulator will have to carry: greedy flows fill their direction."""
    total_bps = 0.0
    for direction in ("forward", "reverse"):
        flows = [flow for flow in scenario.flows if flow.direction == direction]
        if any(flow.protocol == "tcp" for flow in flows):
            total_bps += scenario.path.rate_bps
        else:
            total_bps += min(scenario.path.rate_bps, sum(_mean_udp_bps(flow.rate_bps or 0, flow.pattern) * flow.count for flow in flows))
    return total_bps


def _mean_udp_bps(rate_bps: int, pattern: object) -> float:
    return rate_bps * pattern.on_s / (pattern.on_s + pattern.off_s) if isinstance(pattern, OnOff) else float(rate_bps)


def cost_cores(scenario: Scenario) -> float:
    """How much of the processor a run takes."""
    bps = carried_bps(scenario)
    cores_per_gbps = CORES_PER_GBPS + (KERNEL_CORES_PER_GBPS if scenario.path.emulator == "kernel" else 0.0)
    return IDLE_CORES + (BUSY_CORES + cores_per_gbps * bps / 1e9 if bps else 0.0)


def next_to_start(waiting: Sequence[Scenario], running: Sequence[Scenario], budget: Budget) -> int | None:
    """The index in `waiting` of the run to start now: the first that fits. One that costs more than the budget runs alone."""
    if not running:
        return 0 if waiting else None
    costs = [cost_cores(scenario) for scenario in running]
    if len(running) >= budget.runs or max(costs) > budget.alone_cores:
        return None
    spent = sum(costs)

    def fits(cost: float) -> bool:
        return cost <= budget.alone_cores and spent + cost <= budget.cores

    return next((index for index, scenario in enumerate(waiting) if fits(cost_cores(scenario))), None)


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
