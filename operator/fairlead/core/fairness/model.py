"""What a round of the fairness loop looks at and what it concludes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.spec import Bandwidth
from fairlead.core.cap_excess import Arrived
from fairlead.core.ends import End, ends_of
from fairlead.core.fairness.meter import Sample
from fairlead.core.model import Observed, Progress

_MOVING = "Transferring"


class Stage(Enum):
    """How far a job is, as far as links are concerned."""

    ASKING = "asking"
    """Nothing stands in its way but the links."""
    HOLDING = "holding"
    """It has started, or will again after a pause; no data flows."""
    FLOWING = "flowing"
    """Data flows."""


@dataclass(frozen=True, slots=True)
class InterfaceCount:
    """What one interface has carried in one direction, in bytes and when it was read, all traffic included."""

    node: str
    interface: str
    direction: str
    total: Sample


@dataclass(frozen=True, slots=True)
class Participant:
    """A job that shares links or asks to."""

    uid: str
    namespace: str
    name: str
    source: End
    destination: End
    stage: Stage
    weight: int = 100
    guarantee_bps: float = 0.0
    limit_bps: float = math.inf
    priority: int = 0
    asked_at: float = 0.0
    """Since when it waits, for ageing."""
    cap_bps: float | None = None
    """The cap that its status says is in force."""
    attempt: int = 0
    sent: Sample | None = None
    """IP bytes that this attempt has sent, as the sender's sockets count; None while nobody says."""
    counts: tuple[InterfaceCount, ...] = ()
    arrived: Arrived | None = None
    """What the receiver reports of this attempt; None while it does not."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits for a link."""

    link: str
    message: str
    impossible: bool = False
    """However long it waits, its guarantee will not fit."""


@dataclass(frozen=True, slots=True)
class Admissions:
    """Who may start and who waits, by UID."""

    admitted: frozenset[str] = frozenset()
    waiting: dict[str, Waiting] = field(default_factory=dict)
    not_raised: dict[str, str] = field(default_factory=dict)
    """Why jobs that have started do not get the higher guarantee which they want."""


def participant_of(observed: Observed, *, asks: bool, now: float) -> Participant | None:
    """The job as the fairness loop sees it; None if it neither has nor asks for a share."""
    job, status = observed.job, observed.job.status
    if job.spec.managed_by != CONTROLLER or job.deleting or status.finished or job.spec.suspend:
        return None
    attempt = observed.latest_attempt
    backing_off = status.last_failure is not None and status.last_failure.attempt == attempt
    if observed.attempt_under_way or backing_off:
        stage = Stage.FLOWING if _flows(observed) else Stage.HOLDING
    elif asks:
        stage = Stage.ASKING
    else:
        return None
    bandwidth = job.spec.bandwidth or Bandwidth()
    limit_bps = bandwidth.limit_bps
    scheduled = status.condition(ConditionType.SCHEDULED)
    waits = scheduled is not None and scheduled.status == "False" and scheduled.reason == Reason.WAITING_FOR_LINK
    reports = observed.reports
    source, destination = ends_of(observed, attempt)
    return Participant(
        uid=job.metadata.uid,
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        source=source,
        destination=destination,
        stage=stage,
        weight=bandwidth.weight,
        guarantee_bps=bandwidth.guarantee_bps,
        limit_bps=math.inf if limit_bps is None else limit_bps,
        priority=job.spec.priority,
        asked_at=scheduled.last_transition_time.timestamp() if waits and scheduled else now,
        cap_bps=status.cap_bps,
        attempt=attempt,
        sent=_sent(reports.sender),
        counts=_counts(source, reports.sender) + _counts(destination, reports.receiver),
        arrived=reports.receiver.arrived if reports.receiver else None,
    )


def _flows(observed: Observed) -> bool:
    reports = observed.reports
    said = [progress.stage for progress in (reports.sender, reports.receiver) if progress is not None]
    return _MOVING in said if said else observed.job.status.is_true(ConditionType.PATH_PROBED)


def _counts(end: End, progress: Progress | None) -> tuple[InterfaceCount, ...]:
    if progress is None or end.node is None or end.interface is None:
        return ()
    both = (("Transmit", progress.interface_bytes_sent), ("Receive", progress.interface_bytes_received))
    return tuple(
        InterfaceCount(end.node, end.interface, direction, Sample(progress.read_at, total))
        for direction, total in both
        if total is not None
    )


def _sent(sender: Progress | None) -> Sample | None:
    return None if sender is None or sender.wire_bytes is None else Sample(sender.read_at, sender.wire_bytes)
