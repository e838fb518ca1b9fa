"""The job as the fairness loop sees it, from one reconcile pass."""

from __future__ import annotations

import math

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.transferjob.spec import Bandwidth
from fairlead.core.annotated_cap import annotated_cap_bps, annotated_path_caps_bps
from fairlead.core.fairness.meter import CounterReading
from fairlead.core.fairness.model import AnnotatedCap, Contact, InterfaceCount, JobStage, Lane, Participant
from fairlead.core.network import ends_of, lanes_of
from fairlead.core.observed import Observed, PodPhase, Role
from fairlead.core.paths.model import End
from fairlead.core.poll_wishes import UNHEARD_SECONDS
from fairlead.core.reports import MoverProgress, Reports
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
    lanes = lanes_of(observed, attempt)
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
        contact=_contact(reports),
        counts=_counts_of_lanes(lanes, reports) if lanes else _counts(source, reports.sender) + _counts(destination, reports.receiver),
        arrived=reports.receiver.arrived if reports.receiver else None,
        lanes=_lanes(observed, lanes, now),
    )


def _lanes(observed: Observed, ends: tuple[tuple[End, End], ...], now: float) -> tuple[Lane, ...]:
    """The job's paths, each as far as it is known."""
    if not ends:
        return ()
    annotated, sender = annotated_path_caps_bps(observed, len(ends)), observed.reports.sender
    traffic = sender.interfaces if sender is not None and len(sender.interfaces) == len(ends) else ()

    def lane(number: int) -> Lane:
        wire_bytes = traffic[number].wire_bytes if traffic else None
        return Lane(
            *ends[number],
            cap_bps=annotated[number] if annotated and annotated[number] < math.inf else observed.job.status.cap_bps,
            annotated=AnnotatedCap(annotated[number], now) if annotated else None,
            sent=CounterReading(sender.read_at, wire_bytes, sender.quiet_seconds) if sender and wire_bytes is not None else None,
        )

    return tuple(lane(number) for number in range(len(ends)))


def _counts_of_lanes(lanes: tuple[tuple[End, End], ...], reports: Reports) -> tuple[InterfaceCount, ...]:
    """What the movers say of the interfaces that are the job's own, each once."""
    found: dict[tuple[str, str, str], InterfaceCount] = {}
    for side, progress in enumerate((reports.sender, reports.receiver)):
        traffic = {each.interface: each for each in progress.interfaces} if progress is not None else {}
        for end in (lane[side] for lane in lanes):
            if progress is not None and end.node is not None and end.interface is not None and end.interface in traffic:
                seen = traffic[end.interface]
                counts = _both_ways(end.node, end.interface, progress.read_at, seen.bytes_sent, seen.bytes_received)
                found |= {(count.node, count.interface, count.direction): count for count in counts}
    return tuple(found.values())


def _may_send(observed: Observed) -> bool:
    """Whether a sender may still be running: it goes on for up to its grace period after its pod was deleted, and longer on a lost node."""
    return any(is_live(pod) and pod.phase is not PodPhase.PENDING for pod in observed.pods_of(Role.SENDER))


def _flows(observed: Observed) -> bool:
    reports = observed.reports
    stages = [progress.stage for progress in (reports.sender, reports.receiver) if progress is not None]
    return _MOVING in stages if stages else observed.job.status.is_true(ConditionType.PATH_PROBED)


def _contact(reports: Reports) -> Contact:
    if reports.sender is not None:
        return Contact.HEARD
    # An operator that has just begun may miss one answer of a sender that has sent all the time.
    is_silent = reports.sender_unheard_seconds is not None and reports.sender_unheard_seconds >= UNHEARD_SECONDS
    return Contact.SILENT if is_silent else Contact.NOT_YET


def _counts(end: End, progress: MoverProgress | None) -> tuple[InterfaceCount, ...]:
    if progress is None or end.node is None or end.interface is None:
        return ()
    return _both_ways(end.node, end.interface, progress.read_at, progress.interface_bytes_sent, progress.interface_bytes_received)


def _both_ways(node: str, interface: str, read_at: float, sent: int | None, received: int | None) -> tuple[InterfaceCount, ...]:
    both = (("Transmit", sent), ("Receive", received))
    return tuple(
        InterfaceCount(node, interface, direction, CounterReading(read_at, total)) for direction, total in both if total is not None
    )


def _sent(sender: MoverProgress | None) -> CounterReading | None:
    return None if sender is None or sender.wire_bytes is None else CounterReading(sender.read_at, sender.wire_bytes, sender.quiet_seconds)
