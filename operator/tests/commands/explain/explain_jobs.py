"""Jobs as the API server shows them, at the moments that `explain` is asked about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.networkpath import NetworkPath
from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.account import Explanation, account_of
from fairlead.commands.explain.facts import Facts, JobEvent

NOW = datetime(2026, 1, 2, 3, 10, 0, tzinfo=UTC)
SINCE = "2026-01-02T03:05:00Z"


def condition(kind: str, status: str, reason: str, message: str = "as it is") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def job(
    status: dict[str, Any] | None = None, *, created: str = "2026-01-02T03:00:00Z", deleted: str | None = None, **spec: Any
) -> TransferJob:
    metadata = {"name": "run42", "namespace": "bio", "uid": "uid-1", "generation": 2, "creationTimestamp": created}
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": ""},
    }
    return TransferJob.from_object(
        {
            "metadata": {**metadata, **({"deletionTimestamp": deleted} if deleted else {})},
            "spec": {**ends, **spec},
            "status": {"observedGeneration": 2, **status} if status else {},
        }
    )


def explained(status: dict[str, Any] | None = None, **more: Any) -> Explanation:
    return account_of(Facts(job(status, **more)))


CONDITIONS = [
    condition("MoversReady", "True", "MoversRunning"),
    condition("PathProbed", "True", "Probed"),
    condition("Accepted", "True", "Valid"),
    condition("CapEnforced", "True", "WithinCap"),
    condition("Scheduled", "True", "PodsScheduled"),
]
TRANSFERRING: dict[str, Any] = {
    "phase": "Transferring",
    "conditions": CONDITIONS,
    "attempts": 2,
    "failures": 1,
    "lastFailure": {"attempt": 1, "reason": "PeerLost", "message": "the stream broke", "time": "2026-01-02T03:02:00Z"},
    "startTime": "2026-01-02T03:00:10Z",
    "endpoints": {
        "source": {"node": "dtn-a", "pod": "run42-sender-2", "interface": "data0", "address": "198.18.0.1"},
        "destination": {"node": "dtn-b", "pod": "run42-receiver-2", "interface": "data0", "address": "198.18.0.2"},
    },
    "path": {"rtt": "60.2ms", "rttMinimum": "60.0ms", "loss": "0.001"},
    "bandwidth": {
        "allocated": "100M",
        "measured": "97M",
        "enforcedBy": "Pacing",
        "boundBy": "Link",
        "bottleneck": "uplink",
        "tenant": "bio",
    },
    "decision": {
        "protocol": "TCP",
        "congestionControl": "bbr",
        "streams": 4,
        "abstained": False,
        "reason": "Classified",
        "message": "BBR is there",
        "background": {"class": "B1-C0", "probability": "0.93"},
        "anyBBR": "0.97",
        "confidence": "0.88",
        "alternatives": [{"congestionControl": "cubic", "whyNot": "less goodput beside BBR"}],
        "switches": [{"time": "2026-01-02T03:06:00Z", "from": "cubic", "to": "bbr", "why": "BBR appeared"}],
        "model": "background-1.0.0",
        "decidedAt": "2026-01-02T03:05:30Z",
    },
    "progress": {
        "bytesTotal": 2_000_000_000,
        "bytesTransferred": 900_000_000,
        "bytesSkipped": 100_000_000,
        "filesTotal": 10,
        "filesTransferred": 4,
        "filesSkipped": 1,
        "percent": 50,
        "rate": "97M",
        "eta": "1m22s",
        "lastProgressTime": "2026-01-02T03:09:58Z",
    },
}


def policy(name: str = "site", accepted: str = "True") -> FairnessPolicy:
    def tenant(of: str) -> dict[str, Any]:
        return {"name": of, "namespaces": 1, "jobs": 2, "waiting": 1, "allocated": "200M"}

    return FairnessPolicy.from_object(
        {
            "metadata": {"name": name, "uid": name, "creationTimestamp": SINCE},
            "spec": {"links": [{"name": "uplink", "networkPath": "a-b", "capacity": "1G"}]},
            "status": {
                "conditions": [condition("Accepted", accepted, "InForce")],
                "links": [
                    {
                        "name": "uplink",
                        "capacity": "1G",
                        "available": "900M",
                        "allocated": "898M",
                        "foreign": "20M",
                        "jobs": 7,
                        "waiting": 3,
                    },
                    {"name": "other", "capacity": "1G", "available": "900M", "allocated": "0", "jobs": 0, "waiting": 0},
                ],
                "tenants": [tenant("bio"), tenant("secret-project")],
            },
        }
    )


def path() -> NetworkPath:
    return NetworkPath.from_object(
        {
            "metadata": {"name": "dtn-a-dtn-b-1234", "uid": "p", "creationTimestamp": SINCE},
            "spec": {
                "source": {"node": "dtn-a", "interface": "data0"},
                "destination": {"node": "dtn-b", "interface": "data0"},
                "capacity": "1G",
            },
            "status": {
                "rtt": "60.213ms",
                "capacity": "450M",
                "lastMeasuredTime": "2026-01-02T03:05:00Z",
                "profile": [
                    {"job": "uid-of-another", "attempt": 1, "congestionControl": "cubic", "streams": 4, "rate": "450M", "time": SINCE}
                ],
            },
        }
    )


def running() -> Explanation:
    """A running job on a shared link, with everything that may be read."""
    event = JobEvent(time=NOW, type="Normal", reason="PathProbed", message="bbr over 4 streams", count=1)
    return account_of(Facts(job(TRANSFERRING), (event,), (policy("old", "False"), policy()), (path(),)))
