"""The decision as it is published."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Decision, PathMeasurement, TransferSummary

VERSION = 1
MOST_CHANGES = 5
LONGEST_TERMINATION_MESSAGE = 4096
"""Bytes; the kubelet cuts longer ones."""

_LONGEST_TEXT = 512


@dataclass(frozen=True, slots=True)
class Changed:
    """A change made while the transfer ran: `what` is `streams`, `congestion_control` or `socket_buffer_bytes`."""

    at: datetime
    what: str
    before: str | int | None
    after: str | int
    why: str


@dataclass(frozen=True, slots=True)
class PausedProbes:
    """How many paused probes there were, for how long data were held back together, and when that was last."""

    count: int = 0
    quiet_s: float = 0.0
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A decision, the measurement behind it, when it was made, whether the mover has it in force, and the latest changes to it.

    `outcome` is None until the transfer is over.
    """

    path: PathMeasurement
    decision: Decision
    decided_at: datetime
    applied: bool
    changes: tuple[Changed, ...] = ()
    looks: PausedProbes = PausedProbes()
    outcome: TransferSummary | None = None


def as_json(published: Published) -> dict[str, object]:
    """The body of `GET /v1/decision`."""
    return {
        "version": VERSION,
        "path": path_json(published.path),
        "decision": decision_json(published.decision) | {"decided_at": timestamp(published.decided_at)},
        "applied": published.applied,
        "changes": [
            {"at": timestamp(change.at), "what": change.what, "from": change.before, "to": change.after, "why": change.why}
            for change in published.changes[-MOST_CHANGES:]
        ],
        "looks": {
            "count": published.looks.count,
            "quiet_seconds": round(published.looks.quiet_s, 1),
            "last_at": None if published.looks.last is None else timestamp(published.looks.last),
        },
        "outcome": None if published.outcome is None else outcome_json(published.outcome),
    }


def termination_message(published: Published) -> str:
    """The same as text that the kubelet does not cut: what matters least is left out first."""
    decision = published.decision
    shorter = replace(decision, rejected=(), message=decision.message[:_LONGEST_TEXT])
    forms = (published, replace(published, changes=()), replace(published, changes=(), decision=shorter))
    texts = (json.dumps(as_json(form)) for form in forms)
    return next((text for text in texts if len(text.encode()) <= LONGEST_TERMINATION_MESSAGE), "")


def outcome_json(outcome: TransferSummary) -> dict[str, object]:
    """How the transfer went."""
    return {
        "congestion_control": outcome.congestion_control,
        "streams": outcome.streams,
        "goodput_bps": None if outcome.goodput_bps is None else round(outcome.goodput_bps),
        "seconds": round(outcome.seconds, 1),
        "stream_coefficient": outcome.stream_coefficient,
        "send_buffer_limited_ratio": _ratio_or_none(outcome.send_buffer_limited_ratio),
        "receive_window_limited_ratio": _ratio_or_none(outcome.receive_window_limited_ratio),
        "source_limited_ratio": _ratio_or_none(outcome.source_limited_ratio),
        "cap_limited_ratio": _ratio_or_none(outcome.cap_limited_ratio),
    }


def path_json(path: PathMeasurement) -> dict[str, object]:
    """A measurement of a path."""
    return {
        "rtt_seconds": path.rtt_s,
        "rtt_minimum_seconds": path.rtt_minimum_s,
        "loss_ratio": path.loss_ratio,
        "samples": path.samples,
        "whole": path.whole and path.rtt_s is not None,
    }


def decision_json(decision: Decision) -> dict[str, object]:
    """A decision without its time."""
    return {
        "protocol": decision.protocol,
        "congestion_control": decision.congestion_control,
        "streams": decision.streams,
        "socket_buffer_bytes": decision.socket_buffer_bytes,
        "socket_buffer_needed_bytes": decision.socket_buffer_needed_bytes,
        **background_json(decision.background),
        "abstained": decision.abstained,
        "utility": None if decision.utility is None else round(decision.utility, 4),
        "rejected": [
            {
                "congestion_control": other.congestion_control,
                "utility": None if other.utility is None else round(other.utility, 4),
                "why_not": other.why_not,
            }
            for other in decision.rejected
        ],
        "reason": str(decision.reason),
        "message": decision.message,
    }


def background_json(background: Background | None) -> dict[str, object]:
    """A classification; every field is null without one."""
    if background is None:
        return dict.fromkeys(("background", "probabilities", "any_bbr", "confidence", "model"))
    return {
        "background": _likeliest_json(background),
        "probabilities": {name: round(value, 4) for name, value in background.probabilities.items()},
        "any_bbr": _ratio(background.any_bbr),
        "confidence": _ratio(background.confidence),
        "model": background.model,
    }


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _likeliest_json(background: Background) -> dict[str, object]:
    name, probability = background.likeliest
    body: dict[str, object] = {"class": name, "probability": _ratio(probability), "abstained": background.abstained}
    return body if background.measured_at is None else body | {"measured_at": timestamp(background.measured_at)}


def _ratio_or_none(value: float | None) -> float | None:
    return None if value is None else _ratio(value)


def _ratio(value: float) -> float:
    return round(max(0.0, min(1.0, value)), 4)
