"""Nodes and paths with settings: each test says only what matters to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.datatransfernode.status import KernelStatus
from fairlead.api.networkpath import NetworkPath
from fairlead.core.tuning.facts import FarEnd, MeasuredPath

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
GOOD_KERNEL = KernelStatus(
    congestion_controls=("bbr", "cubic", "reno"),
    allowed_congestion_controls=("bbr", "cubic", "reno"),
    receive_buffer_maximum_bytes=2**31 - 1,
    send_buffer_maximum_bytes=2**31 - 1,
    tcp_receive_buffer_maximum_bytes=2**31 - 1,
    tcp_send_buffer_maximum_bytes=2**31 - 1,
    default_qdisc="fq",
    clock_source="tsc",
    cpu_governor="performance",
)


def a_node(name: str = "dtn-a", *found: dict[str, Any], declared: list[dict[str, Any]] | None = None, **status: Any) -> DataTransferNode:
    interfaces = [{"addresses": ["198.18.0.1/24"], "carrier": True, **each} for each in found]
    return DataTransferNode.from_object(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"interfaces": declared or []},
            "status": {"interfaces": interfaces, "lastReportTime": NOW.isoformat(), **status},
        }
    )


def a_network_path(name: str = "a-b", rtt: str | None = "100ms", *, spec: dict[str, Any] | None = None, **status: Any) -> NetworkPath:
    ends = {"source": {"node": "dtn-a", "interface": "data0"}, "destination": {"node": "dtn-b", "interface": "data0"}}
    return NetworkPath.from_object(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": ends | (spec or {}),
            "status": status | ({} if rtt is None else {"rttMinimum": rtt}),
        }
    )


def a_measured_path(rtt_seconds: float = 0.1, rate_bps: int | None = 10 * 10**9, **parts: Any) -> MeasuredPath:
    known: dict[str, Any] = {
        "name": "a-b",
        "interface": "data0",
        "far": FarEnd("dtn-b", "data0", rate_bps, 9000),
        "sends": True,
        "rtt_seconds": rtt_seconds,
        "rate_bps": rate_bps,
    }
    return MeasuredPath(**{**known, **parts})
