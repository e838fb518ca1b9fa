"""Puts what the running pods report into the status, where it stays when they end, and keeps their cap in force."""

from __future__ import annotations

from fairlead.api.names import ANNOTATION_EGRESS_BANDWIDTH, ANNOTATION_INGRESS_BANDWIDTH, ANNOTATION_PACING
from fairlead.api.quantity import RateError, format_rate, parse_rate
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.status import ConditionStatus
from fairlead.core.cap_excess import BLOCK_BITS, TOLERANCE, excess_after
from fairlead.core.lifecycle.draft import Draft
from fairlead.core.model import AnnotatePod, MoverPod, Progress, Role
from fairlead.core.settings import GUARDED_MOST_BPS
from fairlead.core.status import bandwidth_of, decision_of, endpoints_of, path_of, progress_of
from fairlead.core.verdicts import is_live

_SILENT_SECONDS = 30.0
"""An advisor that was started again answers sooner, also on a busy node."""
_BITS = 8
_MEASURED_SECONDS = 10
"""The receiver counts whole blocks over this time, so one block more or less for each stream says nothing about the pacing."""


def observe(draft: Draft, sender: MoverPod | None, receiver: MoverPod | None) -> None:
    """Takes over endpoints, path, decision, progress and bandwidth as far as they are known."""
    reports = draft.observed.reports
    draft.change(
        endpoints=endpoints_of(draft.status.endpoints, sender, receiver, reports),
        progress=progress_of(reports, draft.status.progress, draft.stored_now),
    )
    _schedule(draft, sender, receiver)
    _path(draft)
    _cap(draft, sender, receiver)


def _schedule(draft: Draft, sender: MoverPod | None, receiver: MoverPod | None) -> None:
    pods = [pod for pod in (receiver, sender) if pod is not None]
    if not pods:
        return
    waiting = next((pod for pod in pods if pod.node is None), None)
    if waiting is None:
        nodes = ", ".join(f"{pod.role} on {pod.node}" for pod in pods)
        draft.conditions.set(ConditionType.SCHEDULED, "True", Reason.PODS_SCHEDULED, nodes)
        return
    why = ": ".join(part for part in (waiting.waiting_reason, waiting.waiting_message) if part) or "the scheduler has not placed it yet"
    draft.conditions.set(ConditionType.SCHEDULED, "False", Reason.WAITING_FOR_SCHEDULER, f"{waiting.role} pod {waiting.name}: {why}")


def _path(draft: Draft) -> None:
    reports = draft.observed.reports
    if reports.path is not None:
        draft.change(path=path_of(reports.path))
    if reports.decision is None:
        _tell_of_silence(draft)
        return
    decision = decision_of(reports.decision, draft.status.decision)
    draft.change(decision=decision)
    measured = draft.status.path
    rtt = f"RTT {measured.rtt}, " if measured and measured.rtt else ""
    why = f": {decision.message}" if decision.message else ""
    message = f"{rtt}{decision.congestion_control} over {decision.streams} streams ({decision.reason}{why})"
    draft.conditions.set(ConditionType.PATH_PROBED, "True", Reason.PROBED, message)


def _tell_of_silence(draft: Draft) -> None:
    """Says that nobody steers the transfer. What was decided before stays decided: the condition keeps its status."""
    reports = draft.observed.reports
    if reports.sender is None or reports.advisor_silent_seconds < _SILENT_SECONDS:
        return
    decided = draft.conditions.is_true(ConditionType.PATH_PROBED)
    control = reports.sender.congestion_control or "the congestion control"
    streams = f"{reports.sender.streams} streams" if reports.sender.streams else "the streams"
    silence = "tells nothing any more" if decided else "has told no decision"
    message = (
        f"the advisor beside the sender {silence}: the transfer goes on with {control} over {streams}, which nobody adjusts;"
        " the log of the sender pod's container advisor says why"
    )
    draft.conditions.set(ConditionType.PATH_PROBED, "True" if decided else "False", Reason.ADVISOR_SILENT, message)


def cap_of(draft: Draft) -> int | None:
    """Most the job may send: its own limit or its share, whichever is less; None for no cap."""
    wanted, standing = draft.job.spec.bandwidth, draft.observed.fairness
    limit_bps = wanted.limit_bps if wanted else None
    share_bps = standing.cap_bps if standing else None
    if standing is not None and standing.hold:
        share_bps = _present_cap(draft)
    return min((bps for bps in (limit_bps, share_bps) if bps is not None), default=None)


def _present_cap(draft: Draft) -> int | None:
    """The cap in force by the status, else by the sender's pod: its creation may be all that was written."""
    bandwidth = draft.job.status.bandwidth
    sender = max(draft.pods(Role.SENDER), key=lambda pod: pod.attempt, default=None)
    told = bandwidth.allocated if bandwidth else None
    if told is None and sender is not None:
        told = sender.pacing_cap or sender.egress_cap
    try:
        return parse_rate(told) if told else None
    except RateError:
        return None


def receiver_cap_of(draft: Draft) -> int | None:
    """The cap as the receiver's pod has it: only where its own interface is a shared link."""
    standing = draft.observed.fairness
    return cap_of(draft) if standing is not None and standing.at_receiver else None


def bucket_of(draft: Draft, cap_bps: int | None) -> int | None:
    """What a bucket shall let through that stays as it is made: the most that the job may ever get, as pacing holds it to less.

    None on the nodes' network, where nothing makes one, and without a cap.
    """
    wanted, standing = draft.job.spec.bandwidth, draft.observed.fairness
    if cap_bps is None or draft.job.spec.network == "Host":
        return None
    if standing is None or standing.ceiling_bps is None:
        return cap_bps
    limit_bps = wanted.limit_bps if wanted else None
    return max(cap_bps, standing.ceiling_bps if limit_bps is None else min(standing.ceiling_bps, limit_bps))


def _cap(draft: Draft, sender: MoverPod | None, receiver: MoverPod | None) -> None:
    cap_bps = cap_of(draft)
    before = draft.status.bandwidth
    bandwidth = bandwidth_of(before, cap_bps, draft.observed.reports)
    in_force = before.allocated if before else None
    _cap_at_sender(draft, sender, bandwidth.allocated)
    _cap_at_receiver(draft, receiver)
    if cap_bps is None:
        draft.conditions.remove(ConditionType.CAP_ENFORCED)
    else:
        if in_force != bandwidth.allocated or not _is_judged_for_good(draft, receiver):
            draft.conditions.set(ConditionType.CAP_ENFORCED, *_judge(draft, cap_bps))
        judged = draft.conditions.get(ConditionType.CAP_ENFORCED)
        if judged is not None and judged.status == "False":
            # The mover was told, but what is measured shows that nothing holds it.
            bandwidth = bandwidth.model_copy(update={"enforced_by": "None"})
        elif _is_guarded(draft, cap_bps):
            bandwidth = bandwidth.model_copy(update={"enforced_by": "TrafficControl"})
    draft.change(bandwidth=bandwidth)


def _is_guarded(draft: Draft, cap_bps: int) -> bool:
    return draft.settings.node_guard and draft.job.spec.network == "Host" and cap_bps <= GUARDED_MOST_BPS


def _cap_at_sender(draft: Draft, sender: MoverPod | None, wanted: str | None) -> None:
    """Tells a running sender its cap. The pod is looked at: of its annotation and the status one may be written without the other."""
    if sender is None or not is_live(sender):
        return
    changes: dict[str, str | None] = {}
    if draft.job.spec.network == "Pod" and sender.pacing_cap != wanted:
        changes[ANNOTATION_PACING] = wanted
    if sender.egress_cap != wanted and not _makes_bucket(draft, sender):
        changes[ANNOTATION_EGRESS_BANDWIDTH] = wanted
    if changes:
        draft.annotate(AnnotatePod(sender.name, sender.uid, changes))


def _makes_bucket(draft: Draft, pod: MoverPod) -> bool:
    """Whether a CNI plugin may still be about to make a bucket by the annotation that the pod was created with."""
    return draft.job.spec.network == "Pod" and pod.address is None


def _cap_at_receiver(draft: Draft, receiver: MoverPod | None) -> None:
    standing = draft.observed.fairness
    if receiver is None or not is_live(receiver) or (standing is not None and standing.hold):
        return
    cap_bps = receiver_cap_of(draft)
    wanted = None if cap_bps is None else format_rate(cap_bps)
    if receiver.ingress_cap != wanted and not _makes_bucket(draft, receiver):
        draft.annotate(AnnotatePod(receiver.name, receiver.uid, {ANNOTATION_INGRESS_BANDWIDTH: wanted}))


def _is_judged_for_good(draft: Draft, receiver: MoverPod | None) -> bool:
    """Whether the attempt's data is all there, and it is known whether it kept to the cap that is in force."""
    said = draft.observed.reports.receiver
    over = said.has_flowed if said is not None else receiver is not None and not is_live(receiver)
    return over and draft.conditions.get(ConditionType.CAP_ENFORCED) is not None


def _judge(draft: Draft, cap_bps: int) -> tuple[ConditionStatus, Reason, str]:
    """Whether the rate at which data arrives now keeps to the cap, in view of the caps that were in force while it was measured."""
    cap, observed, receiver = format_rate(cap_bps), draft.observed, draft.observed.reports.receiver
    if receiver is None:
        return "Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: no receiver tells what arrives"
    if not receiver.flows:
        return "Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: no data flows"
    measured_bps, allowance_bps = receiver.rate_bytes_per_second * _BITS, _granularity_bps(receiver)
    if measured_bps <= cap_bps * TOLERANCE + allowance_bps:
        return "True", Reason.WITHIN_CAP, f"the receiver measures no more than {cap}"
    asked_bps = max(observed.asked_bps or 0.0, cap_bps)
    if measured_bps <= asked_bps * TOLERANCE + allowance_bps:
        return "Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap} is new: what is measured still holds the time before it"
    excess = excess_after(observed.excess, receiver.arrived, asked_bps)
    if excess is None or not excess.is_proven:
        return "Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: more arrives at the moment, which is usual for some seconds after a stop"
    return "False", Reason.ABOVE_CAP, f"the receiver measures more than {cap}"


def _granularity_bps(receiver: Progress) -> float:
    return BLOCK_BITS / _MEASURED_SECONDS * max(1, receiver.streams)
