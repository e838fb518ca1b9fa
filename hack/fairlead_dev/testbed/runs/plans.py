"""The plans of a run's agents, for recordings and for the benches that run traffic over the test bed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.testbed.lab.namespaces import PROBE_ADDRESS_B, Names
from fairlead_dev.testbed.scenario.model import Scenario

TRACE = "trace.csv"
BURSTS = "bursts.csv"
FLOWS = "flows.csv"
IDLE_S = 1.5
_ECHO_PORT = 7000
_FLOW_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class Priorities:
    """Real-time priorities: the path goes before the probe, the probe before the traffic."""

    emulator: int = 50
    probe: int = 45
    traffic: int = 40


def idle_before_ns(scenario: Scenario) -> int:
    """How long before the recording the idle path is probed first: the probing itself, its last reply and the warm-up."""
    return int(IDLE_S * 1e9) + int(scenario.path.rtt_ms * 1e6) + int(scenario.warm_up_s * 1e9)


def agent_plans(scenario: Scenario, names: Names, work: Path, priorities: Priorities | None) -> dict[str, dict[str, Any]]:
    """The plan of each of `fairlead_dev.testbed.agents` that a run has, by its name. Their files go to `work`."""
    service = {"port": _ECHO_PORT, "priority": priorities.probe if priorities else None}
    return {
        "echo": {**service, "namespace": names.probe_b, "address": PROBE_ADDRESS_B},
        "probe": {
            **service,
            "namespace": names.probe_a,
            "host": PROBE_ADDRESS_B,
            "rate_hz": scenario.probe.rate_hz,
            "idle_s": IDLE_S,
            "idle_before_ns": idle_before_ns(scenario),
            "duration_s": scenario.duration_s,
            "trace": str(work / TRACE),
            "bursts": [burst.model_dump(mode="json") for burst in scenario.probe.bursts],
            "burst_trace": str(work / BURSTS),
        },
        "traffic": {
            "scenario": scenario.model_dump(mode="json"),
            "namespaces": asdict(names),
            "interval_s": _FLOW_INTERVAL_S,
            "flows": str(work / FLOWS),
            "priority": priorities.traffic if priorities else None,
        },
    }
