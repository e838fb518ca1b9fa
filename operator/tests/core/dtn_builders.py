"""Data transfer nodes: each test says only what matters to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fairlead.api.datatransfernode import DataTransferNode

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DATA0 = {"name": "data0", "rate": "100G", "mtu": 9000, "numaNode": 1, "addresses": ["198.18.0.1/24"], "carrier": True}
DATA1 = {"name": "data1", "mtu": 1500, "addresses": ["198.18.1.1/24", "fe80::1/64"], "carrier": True}
ETH0 = {"name": "eth0", "rate": "1G", "mtu": 1500, "addresses": ["192.0.2.1/24"], "carrier": True, "management": True}


def dtn_body(*found: dict[str, Any], spec: dict[str, Any] | None = None, reported: datetime | None = NOW, **status: Any) -> dict[str, Any]:
    """`dtn-a` with these interfaces; `reported` is when its agent reported last."""
    report = {"interfaces": list(found), **status}
    return {
        "metadata": {"name": "dtn-a", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"own": "yes"}},
        "spec": spec or {},
        "status": report | ({} if reported is None else {"lastReportTime": reported.isoformat()}),
    }


def a_dtn(*found: dict[str, Any], **fields: Any) -> DataTransferNode:
    """The same as a typed object."""
    return DataTransferNode.from_object(dtn_body(*found, **fields))
