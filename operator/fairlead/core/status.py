"""The parts of the status that report: progress, endpoints, path, decision, bandwidth and the phase, and when a change is worth a write."""

from __future__ import annotations

from datetime import datetime, timedelta

from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.shared.fields import Condition
from fairlead.api.shared.quantity import format_duration, format_milliseconds, format_rate, format_rate_rounded, format_ratio
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import (
    MOST_ALTERNATIVES,
    MOST_SWITCHES,
    Alternative,
    Background,
    BandwidthStatus,
    DecisionStatus,
    EndpointInterface,
    EndpointsStatus,
    EndpointStatus,
    PathStatus,
    Phase,
    ProgressStatus,
    ProtocolInForce,
    TransportSwitch,
)
from fairlead.core.fairness.model import Bound
from fairlead.core.observed import MoverPod, ProgressWrites
from fairlead.core.reports import DecisionReport, MoverEndpoint, PathReport, Reports, Verdict
from fairlead.core.settings import OperatorSettings

_BITS = 8
_ALL = 100
_LONGEST_ETA_SECONDS = 366 * 86400.0
"""At a rate that needs longer there is no end in sight."""
_WHOLE_SECOND = timedelta(seconds=1)
_WAITING_PART, _LONGEST_WAIT = 0.25, timedelta(minutes=9)
"""From which age on written progress goes before that of others, as a part of the attempt's age and at most."""
_BEING_PLACED = frozenset({Reason.PODS_SCHEDULED, Reason.WAITING_FOR_SCHEDULER})
MOVERS_IN_TROUBLE = (
    Reason.RECEIVER_NOT_READY,
    Reason.SENDER_NOT_READY,
    Reason.ATTACHMENT_FAILED,
    Reason.ENDPOINT_REFUSED,
    Reason.CREATION_REFUSED,
)
"""Why movers are not up, where that is more than a beginning."""


def phase_of(status: TransferJobStatus) -> Phase:
    """The summary for people, from the conditions and what has arrived."""
    for kind, phase in _DECISIVE:
        if status.is_true(kind):
            return phase
    if not status.is_true(ConditionType.MOVERS_READY):
        return "Pending"
    progress = status.progress or ProgressStatus()
    if progress.percent == _ALL:
        return "Verifying"
    if status.is_true(ConditionType.PATH_PROBED) or progress.bytes_transferred:
        return "Transferring"
    return "Probing"


_DECISIVE: tuple[tuple[ConditionType, Phase], ...] = (
    (ConditionType.SUCCEEDED, "Succeeded"),
    (ConditionType.FAILED, "Failed"),
    (ConditionType.SUSPENDED, "Suspended"),
)


def progress_of(reports: Reports, before: ProgressStatus | None, now: datetime) -> ProgressStatus | None:
    """Progress as the receiver counts it, with the sender's totals where the receiver has none yet; `before` while nobody answers."""
    receiver, sender = reports.receiver, reports.sender
    if receiver is None:
        return before
    known = before or ProgressStatus()
    bytes_total = _first_known(receiver.bytes_total, sender.bytes_total if sender else None, known.bytes_total)
    files_total = _first_known(receiver.files_total, sender.files_total if sender else None, known.files_total)
    done = receiver.bytes_transferred + receiver.bytes_skipped
    grew = done > (known.bytes_transferred or 0) + (known.bytes_skipped or 0)
    # A pass may come long after the report that it takes.
    seen_at = (now - timedelta(seconds=reports.receiver_age_seconds)).replace(microsecond=0)
    return ProgressStatus(
        bytes_total=bytes_total,
        bytes_transferred=receiver.bytes_transferred,
        bytes_skipped=receiver.bytes_skipped,
        files_total=files_total,
        files_transferred=receiver.files_transferred,
        files_skipped=receiver.files_skipped,
        percent=None if bytes_total is None else _percent(done, bytes_total),
        rate=format_rate_rounded(receiver.rate_bytes_per_second * _BITS),
        eta=_time_left(bytes_total, done, receiver.rate_bytes_per_second),
        last_progress_time=seen_at if grew else known.last_progress_time,
    )


def final_progress(verdict: Verdict, before: ProgressStatus | None, now: datetime) -> ProgressStatus:
    """Progress of a job that succeeded: the receiver's own closing account, with the mean rate of the bulk phase."""
    return ProgressStatus(
        bytes_total=verdict.bytes_total,
        bytes_transferred=verdict.bytes_transferred,
        bytes_skipped=verdict.bytes_skipped,
        files_total=verdict.files_total,
        files_transferred=verdict.files_transferred,
        files_skipped=verdict.files_skipped,
        percent=_ALL,
        rate=format_rate_rounded(verdict.bytes_sent * _BITS / verdict.bulk_seconds) if verdict.bulk_seconds > 0 else None,
        last_progress_time=before.last_progress_time if before and before.last_progress_time else now,
    )


def reached_progress(verdict: Verdict, before: ProgressStatus | None) -> ProgressStatus:
    """How far an attempt came that failed, by its receiver's closing account."""
    return ProgressStatus(
        bytes_total=verdict.bytes_total,
        bytes_transferred=verdict.bytes_transferred,
        bytes_skipped=verdict.bytes_skipped,
        files_total=verdict.files_total,
        files_transferred=verdict.files_transferred,
        files_skipped=verdict.files_skipped,
        percent=_percent(verdict.bytes_transferred + verdict.bytes_skipped, verdict.bytes_total),
        last_progress_time=before.last_progress_time if before else None,
    )


def endpoints_of(
    before: EndpointsStatus | None, sender: MoverPod | None, receiver: MoverPod | None, reports: Reports
) -> EndpointsStatus | None:
    """Where both ends run; what was known of a pod stays known while it does not answer."""
    known = before or EndpointsStatus()
    endpoints = EndpointsStatus(
        source=_endpoint(known.source, sender, reports.sender_endpoint),
        destination=_endpoint(known.destination, receiver, reports.receiver_endpoint),
    )
    return endpoints if endpoints.source or endpoints.destination else None


def _endpoint(before: EndpointStatus | None, pod: MoverPod | None, reported: MoverEndpoint | None) -> EndpointStatus | None:
    if pod is None:
        return before
    known = before if before is not None and before.pod == pod.name else EndpointStatus()
    return EndpointStatus(
        node=pod.node or known.node,
        pod=pod.name,
        interface=reported.interface if reported else known.interface,
        address=reported.address if reported else known.address,
        numa_node=reported.numa_node if reported else known.numa_node,
        cpus=reported.cpus if reported else known.cpus,
        interfaces=_interfaces(reported) if reported else known.interfaces,
    )


def _interfaces(reported: MoverEndpoint) -> tuple[EndpointInterface, ...] | None:
    """Each of several interfaces, by its name: the first address of one that has several paths."""
    first = {place.interface: place for place in reversed(reported.several)}
    found = (EndpointInterface(name=name, address=place.address, numa_node=place.numa_node) for name, place in sorted(first.items()))
    return tuple(found) or None


def path_of(report: PathReport) -> PathStatus:
    """What the advisor measured, as the status writes it."""
    return PathStatus(
        rtt=None if report.rtt_seconds is None else format_milliseconds(report.rtt_seconds),
        rtt_minimum=None if report.rtt_minimum_seconds is None else format_milliseconds(report.rtt_minimum_seconds),
        loss=None if report.loss_ratio is None else format_ratio(report.loss_ratio),
    )


def decision_of(report: DecisionReport, before: DecisionStatus | None, protocol: ProtocolInForce | None) -> DecisionStatus:
    """What the advisor chose, as the status writes it. It reports its last changes alone: switches known from `before` are kept.

    `protocol` is the mover's word on what carries the data, None before they flow.
    """
    switches = {switch.time: switch for switch in before.switches} if before else {}
    for reported in report.switches:
        time = reported.at.replace(microsecond=0)
        switches[time] = TransportSwitch(time=time, from_=reported.before, to=reported.after, why=reported.why or None)
    background = None
    if report.background is not None:
        probability = report.background_probability
        background = Background(class_=report.background, probability=None if probability is None else format_ratio(probability))
    return DecisionStatus(
        protocol=protocol or report.protocol,
        congestion_control=report.congestion_control,
        streams=report.streams,
        abstained=report.abstained,
        reason=report.reason,
        message=report.message,
        background=background,
        any_bbr=None if report.any_bbr is None else format_ratio(report.any_bbr),
        confidence=None if report.confidence is None else format_ratio(report.confidence),
        alternatives=tuple(
            Alternative(congestion_control=other.congestion_control, why_not=other.why_not or None)
            for other in report.rejected[:MOST_ALTERNATIVES]
        ),
        switches=tuple(switches[time] for time in sorted(switches)[-MOST_SWITCHES:]),
        model=report.model,
        decided_at=report.decided_at.replace(microsecond=0),
    )


def bandwidth_of(before: BandwidthStatus | None, cap_bps: int | None, reports: Reports, bound: Bound | None = None) -> BandwidthStatus:
    """The cap in force and what `bound`s it, and at what rate data last arrived; who enforces it is not decided here."""
    measured = before.measured if before else None
    if reports.receiver is not None and reports.receiver.flows:
        measured = format_rate_rounded(reports.receiver.rate_bytes_per_second * _BITS)
    if cap_bps is None:
        return BandwidthStatus(measured=measured)
    bound = bound or Bound("JobLimit")
    return BandwidthStatus(allocated=format_rate(cap_bps), measured=measured, bound_by=bound.by, bottleneck=bound.link, tenant=bound.tenant)


def written_in(
    before: TransferJobStatus, after: TransferJobStatus, now: datetime, settings: OperatorSettings, youngest: datetime | None = None
) -> timedelta | None:
    """How long until `after` is to be written: zero for at once, None where there is nothing to write, or progress that may wait.
    `youngest` is when the youngest mover was created, with which a status was written.

    Progress alone is written if it moved by a per cent and `status_interval` has passed. Whether the cap is kept, and so what enforces it,
    follows from the measured rate: a change of that is progress too, but for the news that it is not. That may be over before long, and
    must not be lost. A stage of an attempt that comes up is often over in a second or two: the next one is written when the one in the
    status has lasted for `stage_interval`, or with what is written at once, as trouble is.
    """
    if after == before:
        return None
    if _exceeds_cap(after) and not _exceeds_cap(before):
        return timedelta()
    if before.progress is None or after.progress is None or not is_progress_alone(before, after):
        is_stage = _without_stages(after) == _without_stages(before)
        return _until_stage_lasted(before, youngest, now, settings.stage_interval) if is_stage else timedelta()
    moved = (after.progress.percent or 0) > (before.progress.percent or 0) or after.conditions != before.conditions
    return timedelta() if moved and _is_old(before.progress, after.progress, now, settings.status_interval) else None


def is_progress_alone(before: TransferJobStatus, after: TransferJobStatus) -> bool:
    """Whether `after` has no other news than progress and what follows from it."""
    if before.progress is None or after.progress is None or (_exceeds_cap(after) and not _exceeds_cap(before)):
        return False
    return after != before and _without_progress(after) == _without_progress(before)


def waits_for_others(before: TransferJobStatus, after: TransferJobStatus, now: datetime, allowed: ProgressWrites) -> bool:
    """Whether `after` is progress alone that may not be written now. What is told of the cap does not wait."""
    if allowed is ProgressWrites.ALL or (allowed is ProgressWrites.OVERDUE and _is_overdue(before, now)):
        return False
    return is_progress_alone(before, after) and _cap_enforced(before) == _cap_enforced(after)


def _is_overdue(status: TransferJobStatus, now: datetime) -> bool:
    last, begun = status.progress.last_progress_time if status.progress else None, status.attempt_start_time
    return last is None or begun is None or now - last >= min(_WAITING_PART * (now - begun), _LONGEST_WAIT)


def _cap_enforced(status: TransferJobStatus) -> str | None:
    condition = status.condition(ConditionType.CAP_ENFORCED)
    return None if condition is None else condition.status


def _is_old(before: ProgressStatus, after: ProgressStatus, now: datetime, interval: timedelta) -> bool:
    """Whether the progress that was written is `interval` old, beside the newer progress too: a pass may come long after its report."""
    last, latest = before.last_progress_time, after.last_progress_time
    if last is None:
        return True
    # The status holds whole seconds: the one that was cut off is waited for as well.
    return now - last >= interval + _WHOLE_SECOND and (latest is None or latest <= last or latest - last >= interval)


def _until_stage_lasted(before: TransferJobStatus, youngest: datetime | None, now: datetime, interval: timedelta) -> timedelta:
    """How long until the stage that the status shows has lasted; a time ahead of ours says nothing."""
    changes = [condition.last_transition_time for condition in before.conditions]
    written = max(changes if youngest is None else [*changes, youngest], default=None)
    return max(written + interval - now, timedelta()) if written is not None and written <= now else timedelta()


def _exceeds_cap(status: TransferJobStatus) -> bool:
    return any(condition.type == ConditionType.CAP_ENFORCED and condition.status == "False" for condition in status.conditions)


def _without_progress(status: TransferJobStatus) -> TransferJobStatus:
    figures = {"measured": None, "enforced_by": "None", "bound_by": None, "bottleneck": None}
    bandwidth = (status.bandwidth or BandwidthStatus()).model_copy(update=figures)
    conditions = tuple(condition for condition in status.conditions if condition.type != ConditionType.CAP_ENFORCED)
    return status.model_copy(update={"progress": None, "bandwidth": bandwidth, "conditions": conditions})


def _without_stages(status: TransferJobStatus) -> TransferJobStatus:
    """Neither progress nor what changes by itself as an attempt comes up and its movers answer, but for what later passes rest on."""
    conditions = tuple(kept for condition in status.conditions if (kept := _without_stage(condition)) is not None)
    reported = dict.fromkeys(("phase", "protocol", "path", "decision"))
    return _without_progress(status.model_copy(update={**reported, "endpoints": _pods_of(status.endpoints), "conditions": conditions}))


def _pods_of(endpoints: EndpointsStatus | None) -> EndpointsStatus:
    ends = (endpoints.source, endpoints.destination) if endpoints is not None else (None, None)
    source, destination = (EndpointStatus(pod=end.pod) if end is not None else None for end in ends)
    return EndpointsStatus(source=source, destination=destination)


def _without_stage(condition: Condition) -> Condition | None:
    """What counts of a condition at once; None for nothing of it."""
    is_true, wordless = condition.status == "True", condition.model_copy(update={"reason": "", "message": ""})
    match condition.type:
        case ConditionType.RECONCILING:
            return None
        case ConditionType.SCHEDULED:
            return None if condition.reason in _BEING_PLACED else condition
        case ConditionType.MOVERS_READY:
            return condition.model_copy(update={"message": ""}) if condition.reason in MOVERS_IN_TROUBLE else None
        case ConditionType.PATH_PROBED:
            return wordless if is_true else None
        case ConditionType.STALLED:
            return condition if is_true else wordless
    return condition


def _percent(done: int, total: int) -> int:
    return _ALL if done >= total else done * _ALL // total


def _time_left(total: int | None, done: int, rate_bytes_per_second: float) -> str | None:
    if total is None or rate_bytes_per_second <= 0 or done >= total:
        return None
    seconds = (total - done) / rate_bytes_per_second
    return format_duration(seconds) if seconds <= _LONGEST_ETA_SECONDS else None


def _first_known(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
