"""Small builders for tests."""

from collections.abc import Sequence
from typing import Any

from fairlead_dev.bench.decisions.matrix import CHANGING, NEVER_DRAWN, STATIONARY, Cell, CellScene, Policy, background_of
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.bench.decisions.timeline import ControlSpan, TransferSample
from fairlead_dev.testbed.runs.record import scenario_digest
from fairlead_dev.testbed.scenario.expand import single_flows
from fairlead_dev.testbed.scenario.model import Path as NetworkPath

PATHS: dict[str, NetworkPath] = {**NEVER_DRAWN, "other": NetworkPath(rate_bps=20_000_000, rtt_ms=10, buffer_bdp=1.0)}
MBPS = 1e6


def cell(background: str = "B1-C0", policy: Policy = Policy.OURS, *, path_id: str = "new-30", fingerprint: str = "f" * 64) -> Cell:
    return Cell(path_id, PATHS[path_id], STATIONARY[background], policy, 200.0, fingerprint)


def outcome(
    background: str,
    policy: Policy,
    own_mbps: float,
    *flows_mbps: float,
    path_id: str = "new-30",
    in_force: Sequence[tuple[str, float, float]] = (),
    scene: CellScene | None = None,
    seconds: float = 200.0,
    number: int = 1,
) -> CellOutcome:
    flows_bps = tuple(mbps * MBPS for mbps in flows_mbps)
    return CellOutcome(
        run=f"{path_id}__{background}__{policy}",
        path_id=path_id,
        scene=scene or STATIONARY[background],
        policy=policy,
        seconds=seconds,
        own_bps=own_mbps * MBPS,
        own_settled_bps=own_mbps * MBPS,
        first_data_s=1.0,
        flows_bps=flows_bps,
        flows_settled_bps=flows_bps,
        in_force=tuple(ControlSpan(*span) for span in in_force),
        number=number,
    )


def samples(*points: tuple[float, int, str | None]) -> tuple[TransferSample, ...]:
    return tuple(TransferSample(time_s, count, control, 0 if control is None else 1) for time_s, count, control in points)


VISIT = CHANGING[0]


def manifest(of: Cell, *faults: str) -> dict[str, Any]:
    """What a run leaves of itself, as far as it is read."""
    flows = [single.name for single in single_flows(background_of(of.scenario))]
    return {
        "scenario_digest": scenario_digest(of.scenario),
        "verdict": {"good": not faults, "faults": list(faults)},
        "own": {
            "goodput_bps": 5_000_000,
            "settled_goodput_bps": 6_000_000,
            "first_data_s": 10.0,
            "in_force": [{"control": "bbr", "from_s": 10, "to_s": 200}],
        },
        "flows": [{"name": name, "goodput_bps": 7_000_000} for name in flows],
        "machine": {"description": "2 cores of a test", "boot": "0a1b2c3d", "squares_s": 0.06, "load_average_before": 0.1},
        "settled_flows_bps": dict.fromkeys(flows, 8_000_000),
    }
