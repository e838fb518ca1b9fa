"""Small builders for tests."""

from typing import Any

from fairlead_dev.testbed.dataset.specification import Specification
from fairlead_dev.testbed.scenario.expand import single_flows
from fairlead_dev.testbed.scenario.model import Scenario


def path(**changes: Any) -> dict[str, Any]:
    return {"rate_bps": 50_000_000, "rtt_ms": 40, "buffer_bdp": 1.0, **changes}


def scenario(*flows: dict[str, Any], **changes: Any) -> Scenario:
    return Scenario.model_validate({"name": "test", "duration_s": 30, "warm_up_s": 5, "path": path(), "flows": flows, **changes})


def tcp(name: str = "one", control: str = "cubic", **changes: Any) -> dict[str, Any]:
    return {"name": name, "congestion_control": control, **changes}


def udp(name: str = "udp", rate_bps: int = 10_000_000, **changes: Any) -> dict[str, Any]:
    return {"name": name, "protocol": "udp", "rate_bps": rate_bps, **changes}


def good_direction(**changes: Any) -> dict[str, Any]:
    return {
        "packets_overrun": 0,
        "packets_dropped_memory": 0,
        "packets_dropped_device": 0,
        "write_lateness_us": {"p50": 60.0, "p99": 200.0, "max": 900.0},
        **changes,
    }


def good_probe(of: Scenario, **changes: Any) -> dict[str, Any]:
    base_ms = of.path.rtt_ms + 0.2
    spread = {"min": base_ms, "p05": base_ms, "p50": base_ms + 0.1, "p95": base_ms + 0.2, "p99": base_ms + 0.3, "max": base_ms + 0.5}
    requests = round(of.duration_s * of.probe.rate_hz)
    return {
        "idle": {"samples": 100, "rtt_ms": spread},
        "samples": requests,
        "answered": requests,
        "rtt_ms": spread,
        "start_late_ms": 0.1,
        "send_lateness_ms": {"min": 0.0, "p05": 0.0, "p50": 0.1, "p95": 0.2, "p99": 0.5, "max": 1.0},
        "late_replies": 0,
        **({"bursts": {"packets": 10, "answered": 9, "send_lateness_ms": {"p50": 0.1, "p99": 0.5, "max": 1.0}}} if of.probe.bursts else {}),
        **changes,
    }


def good_flows(of: Scenario) -> list[dict[str, Any]]:
    singles = single_flows(of)
    share_bps = of.path.rate_bps * 0.9 / max(1, len(singles))
    return [
        {
            "number": single.number,
            "name": single.name,
            "congestion_controls": [single.flow.congestion_control] if single.flow.protocol == "tcp" else [],
            "transfers": 0,
            "edges": [{"what": "on", "planned_s": single.start_s, "actual_s": single.start_s + 0.001}],
            "failures": [],
            "received_bytes": 1,
            "goodput_bps": share_bps,
            "retransmits": 0,
        }
        for single in singles
    ]


DRAWN = {
    "known": 12,
    "unseen": 4,
    "rtt_ms": {"low": 5, "high": 250},
    "rate_bps": {"low": 20e6, "high": 120e6},
    "fast_rate_bps": {"low": 120e6, "high": 500e6},
    "fast_share": 0.125,
    "buffer_bdp": {"low": 0.2, "high": 5},
    "loss_ratio": {"low": 1e-6, "high": 1e-4},
    "loss_share": 0.5,
}


def specification(**changes: Any) -> Specification:
    content = {
        "name": "test",
        "seed": 7,
        "duration_s": 40,
        "train_seeds": 2,
        "test_seeds": 1,
        "unseen_path_seeds": 2,
        "most_flows_per_side": 2,
        "drawn_paths": DRAWN,
        **changes,
    }
    return Specification.model_validate(content)
