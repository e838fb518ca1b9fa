"""Objects as the API server has them, at the moments that the plugin draws."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NOW = datetime(2026, 1, 2, 3, 10, 0, tzinfo=UTC)
SINCE = "2026-01-02T03:05:00Z"
NAMESPACE = "bio"


def condition(kind: str, status: str, reason: str, message: str = "as it is") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def job(
    name: str, *conditions: dict[str, Any], labels: dict[str, str] | None = None, suspend: bool = False, **status: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": "TransferJob",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": SINCE,
            "labels": labels or {},
        },
        "spec": {
            "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
            "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
            "suspend": suspend,
        },
        "status": {"observedGeneration": 1, "conditions": list(conditions), **status},
    }


def progress(percent: int) -> dict[str, Any]:
    return {"bytesTotal": 10**12, "bytesTransferred": percent * 10**10, "percent": percent, "rate": "1.6G", "eta": "50m"}


def copying(name: str = "copying", percent: int = 40) -> dict[str, Any]:
    return job(
        name,
        condition("Accepted", "True", "Valid"),
        condition("Scheduled", "True", "PodsScheduled"),
        condition("MoversReady", "True", "MoversRunning"),
        phase="Transferring",
        progress=progress(percent),
        bandwidth={"allocated": "2G", "measured": "1.9G", "boundBy": "Link", "bottleneck": "out"},
        decision={"protocol": "TCP", "congestionControl": "bbr", "streams": 8, "reason": "Classified", "abstained": False},
    )


def waiting(name: str = "waiting") -> dict[str, Any]:
    blocked = condition("Scheduled", "False", "WaitingForLink", "link out has no room")
    return job(name, condition("Accepted", "True", "Valid"), blocked, phase="Pending")


def suspended(name: str = "suspended", **more: Any) -> dict[str, Any]:
    return job(name, condition("Suspended", "True", "Suspended"), phase="Suspended", progress=progress(50), **{"suspend": True, **more})


def failed(name: str = "failed") -> dict[str, Any]:
    last = {"attempt": 7, "reason": "SourceMissing", "message": "source: there is no run42", "time": SINCE}
    gone = condition("Failed", "True", "BackoffLimitExceeded", "7 attempts failed")
    return job(name, gone, phase="Failed", lastFailure=last, failures=7, completionTime=SINCE, progress=progress(10))


def succeeded(name: str = "succeeded") -> dict[str, Any]:
    return job(name, condition("Succeeded", "True", "Verified"), phase="Succeeded", completionTime=SINCE, progress=progress(100))


def policy() -> dict[str, Any]:
    """Two links, of which one is shared unevenly; two tenants, of which one misses its guarantee."""
    link = {"capacity": "10G", "available": "9G", "allocated": "8G", "waiting": 0}
    tenant = {"namespaceSelector": {"matchLabels": {"group": "bio"}}}
    return {
        "metadata": {"name": "site", "uid": "uid-site", "creationTimestamp": SINCE},
        "spec": {
            "links": [
                {"name": name, "interfaces": [{"node": "dtn-a", "name": "data0", "direction": direction}], "capacity": "10G"}
                for name, direction in (("out", "Transmit"), ("in", "Receive"))
            ],
            "tenants": [{"name": "bio", "weight": 300, "guarantee": "2G", **tenant}],
            "others": {"limit": "3G"},
        },
        "status": {
            "jainIndex": "0.93",
            "jobs": 5,
            "waiting": 1,
            "conditions": [condition("Accepted", "True", "Valid"), condition("GuaranteesMet", "False", "NoRoom", "bio gets 1G of 2G")],
            "links": [
                {**link, "name": "out", "measured": "7.5G", "foreign": "1G", "jobs": 3, "waiting": 1, "jainIndex": "0.97"},
                {**link, "name": "in", "measured": "2.5G", "jobs": 2, "jainIndex": "0.55"},
            ],
            "tenants": [
                {"name": "bio", "namespaces": 2, "allocated": "6G", "measured": "5.5G", "jobs": 3, "waiting": 1, "jainIndex": "0.99"},
                {"name": "others", "namespaces": 4, "allocated": "2G", "measured": "1.5G", "jobs": 2, "waiting": 0, "jainIndex": "0.61"},
            ],
        },
    }


def node() -> dict[str, Any]:
    return {
        "metadata": {"name": "dtn-a", "uid": "uid-dtn-a", "creationTimestamp": SINCE},
        "spec": {"site": "geneva", "slots": 3, "interfaces": [{"name": "data0", "rate": "100G"}]},
        "status": {
            "conditions": [condition("Ready", "False", "AgentSilent", "its agent has not reported for 5 minutes")],
            "interfaces": [{"name": "data0", "rate": "100G", "mtu": 9000, "numaNode": 0, "carrier": True, "addresses": ["198.18.0.1/24"]}],
        },
    }
