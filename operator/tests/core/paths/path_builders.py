"""Paths, measurements and jobs on them: each test says only what matters to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.api.networkpath import NetworkPath
from fairlead.core.paths.model import KnownBackground, Measurement, PathEnds, PathProbe, PathTransfer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENDS = PathEnds("dtn-a", "data0", "dtn-b", "data0")
CLASSES = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")


def ago(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def a_probe(at: datetime = NOW, rtt: float = 0.0602, minimum: float = 0.06, loss: float | None = 0.001) -> PathProbe:
    return PathProbe(at, rtt, minimum, loss)


def a_background(at: datetime = NOW, name: str = "B1-C0", probability: float = 0.9, **fields: Any) -> KnownBackground:
    rest = (1 - probability) / (len(CLASSES) - 1)
    known: dict[str, Any] = {
        "class_name": name,
        "probability": probability,
        "probabilities": {other: probability if other == name else rest for other in CLASSES},
        "any_bbr": 0.94,
        "confidence": 0.94,
        "abstained": False,
        "model": "background-1.0.0 (sha256:0123456789ab)",
        "measured_at": at,
    }
    return KnownBackground(**{**known, **fields})


def a_transfer(at: datetime = NOW, rate: float = 187e6, streams: int = 8, coefficient: float | None = None) -> PathTransfer:
    return PathTransfer(at, "cubic", streams, rate, coefficient)


def measured(job: str = "job-1", attempt: int = 1, **parts: Any) -> Measurement:
    return Measurement(job, attempt, **parts)


def path_body(
    name: str = "a-b", *, ends: PathEnds = ENDS, created: str = "2026-01-01T00:00:00Z", status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    def end(node: str, interface: str | None) -> dict[str, str]:
        return {"node": node} | ({"interface": interface} if interface else {})

    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1", "creationTimestamp": created},
        "spec": {
            "source": end(ends.source_node, ends.source_interface),
            "destination": end(ends.destination_node, ends.destination_interface),
            **spec,
        },
        "status": status or {},
    }


def a_path(name: str = "a-b", **fields: Any) -> NetworkPath:
    return NetworkPath.from_object(path_body(name, **fields))
