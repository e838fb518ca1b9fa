"""The job as the fairness loop sees it, from one reconcile pass."""

from __future__ import annotations

import math

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.transferjob.spec import Bandwidth
from fairlead.core.annotated_cap import annotated_cap_bps
from fairlead.core.fairness.meter import CounterReading
from fairlead.core.fairness.model import AnnotatedCap, InterfaceCount, JobStage, Participant
from fairlead.core.network import ends_of
from fairlead.core.observed import Observed, PodPhase, Role
from fairlead.core.paths.model import End
from fairlead.core.reports import MoverProgress
from fairlead.core.verdicts import is_live

_MOVING = "Transferring"


def participant_of(observed: Observed, *, asks: bool, now: float) -> Participant | None:
    """The job as the fairness loop sees it; None if it neither has nor asks for a share."""
    job, status = observed.job, observed.job.status
    if job.spec.managed_by != CONTROLLER or job.spec.preflight_only:
        return None
    leaves = job.deleting or status.finished or job.spec.suspend
    if leaves and not _may_send(observed):
        return None
    attempt = observed.latest_attempt
    backing_off = status.last_failure is not None and status.last_failure.attempt == attempt
    if leaves or observed.attempt_under_way or backing_off:
        stage = JobStage.FLOWING if _flows(observed) else JobStage.HOLDING
    elif asks:
        stage = JobStage.ASKING
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
        # Its place is free for the next one, which gets what is really free.
        guarantee_bps=0.0 if leaves else bandwidth.guarantee_bps,
        limit_bps=math.inf if limit_bps is None else limit_bps,
        priority=job.spec.priority,
        gives_way=job.spec.transport.is_scavenger,
        asked_at=scheduled.last_transition_time.timestamp() if waits and scheduled else now,
        cap_bps=status.cap_bps,
        annotated=None if (annotated_bps := annotated_cap_bps(observed)) is None else AnnotatedCap(annotated_bps, now),
        attempt=attempt,
        sent=_sent(reports.sender),
        counts=_counts(source, reports.sender) + _counts(destination, reports.receiver),
        arrived=reports.receiver.arrived if reports.receiver else None,
    )


def _may_send(observed: Observed) -> bool:
    """Whether a sender may still be running: it goes on for up to its grace period after its pod was deleted, and longer on a lost node."""
    return any(is_live(pod) and pod.phase is not PodPhase.PENDING for pod in observed.pods_of(Role.SENDER))


def _flows(observed: Observed) -> bool:
    reports = observed.reports
    stages = [progress.stage for progress in (reports.sender, reports.receiver) if progress is not None]
    return _MOVING in stages if stages else observed.job.status.is_true(ConditionType.PATH_PROBED)


def _counts(end: End, progress: MoverProgress | None) -> tuple[InterfaceCount, ...]:
    if progress is None or end.node is None or end.interface is None:
        return ()
    both = (("Transmit", progress.interface_bytes_sent), ("Receive", progress.interface_bytes_received))
    return tuple(
        InterfaceCount(end.node, end.interface, direction, CounterReading(progress.read_at, total))
        for direction, total in both
        if total is not None
    )


def _sent(sender: MoverProgress | None) -> CounterReading | None:
    return None if sender is None or sender.wire_bytes is None else CounterReading(sender.read_at, sender.wire_bytes, sender.quiet_seconds)
