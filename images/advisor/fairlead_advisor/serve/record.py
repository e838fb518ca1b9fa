"""The decision as it is published."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fairlead_advisor.decide.model import Decision, PathMeasurement

VERSION = 1


@dataclass(frozen=True, slots=True)
class Published:
    """A decision, the measurement behind it, when it was made, and whether the mover has it in force."""

    path: PathMeasurement
    decision: Decision
    decided_at: datetime
    applied: bool


def as_json(published: Published) -> dict[str, object]:
    """The body of `GET /v1/decision`."""
    path, decision = published.path, published.decision
    return {
        "version": VERSION,
        "path": {
            "rtt_seconds": path.rtt_s,
            "rtt_minimum_seconds": path.rtt_minimum_s,
            "loss_ratio": path.loss_ratio,
            "samples": path.samples,
        },
        "decision": {
            "protocol": decision.protocol,
            "congestion_control": decision.congestion_control,
            "streams": decision.streams,
            "background": None,
            "confidence": None,
            "abstained": decision.abstained,
            "model": None,
            "reason": str(decision.reason),
            "message": decision.message,
            "decided_at": published.decided_at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        },
        "applied": published.applied,
    }
