"""The single flows of a scenario, each with its own seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from fairlead_dev.testbed.scenario.model import OnOff, Scenario, TrafficFlow


@dataclass(frozen=True, slots=True)
class SingleFlow:
    """One of a flow's `count`. `number` identifies the flow in its run; times count from the start of the recording."""

    number: int
    name: str
    flow: TrafficFlow
    start_s: float
    stop_s: float
    seed: int

    def on_phases(self) -> Iterator[tuple[float, float]]:
        """When it is on, as intervals in s, for constant and on_off; transfers set their own pace within one interval."""
        if not isinstance(self.flow.pattern, OnOff):
            yield self.start_s, self.stop_s
            return
        period_s = self.flow.pattern.on_s + self.flow.pattern.off_s
        begin_s, cycle = self.start_s, 0
        while begin_s < self.stop_s:
            yield begin_s, min(begin_s + self.flow.pattern.on_s, self.stop_s)
            cycle += 1
            begin_s = self.start_s + cycle * period_s


def single_flows(scenario: Scenario) -> tuple[SingleFlow, ...]:
    """The flows of `scenario`, one by one, in the order of the file."""
    flows: list[SingleFlow] = []
    for flow in scenario.flows:
        start_s, stop_s = scenario.flow_times_s(flow)
        for copy in range(flow.count):
            name = flow.name if flow.count == 1 else f"{flow.name}-{copy + 1}"
            flows.append(SingleFlow(len(flows), name, flow, start_s, stop_s, derived_seed(scenario.seed, name)))
    return tuple(flows)


def derived_seed(seed: int, *parts: object) -> int:
    """A seed for one purpose, independent of the others derived from the same one."""
    text = "\0".join(str(part) for part in (seed, *parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def draws(seed: int, *parts: object) -> random.Random:
    """A generator for one purpose."""
    return random.Random(derived_seed(seed, *parts))
