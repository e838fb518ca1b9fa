"""What the running pods report, as the status shows it and keeps it when they end, and the cap that they are to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fairlead.api.names import (
    ANNOTATION_EGRESS_BANDWIDTH,
    ANNOTATION_INGRESS_BANDWIDTH,
    ANNOTATION_PACING,
    ANNOTATION_PATH_BANDWIDTH,
)
from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.api.shared.quantity import RateError, format_rate, parse_rate
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import EndpointsStatus, Enforcement, ProtocolInForce
from fairlead.core.annotated_cap import format_path_caps, path_caps_bps, watches_egress_cap
from fairlead.core.cap_excess import BLOCK_BITS, RECEIVER_WINDOW_SECONDS, TOLERANCE, excess_after
from fairlead.core.conditions import shorten
from fairlead.core.fairness.model import Bound, JobShare
from fairlead.core.lifecycle.outcome import Judgement, Judgements
from fairlead.core.lifecycle.preflight import checks_of, judge_preflight
from fairlead.core.network import lanes_of, traits_of
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.paths.engines import protocol_of
from fairlead.core.plan import AnnotatePod
from fairlead.core.reports import MoverProgress, Reports
from fairlead.core.settings import GUARDED_MOST_BPS
from fairlead.core.status import bandwidth_of, decision_of, endpoints_of, path_of, progress_of
from fairlead.core.verdicts import is_live, is_lost

_SILENT_SECONDS = 30.0
"""An advisor that was started again answers sooner, also on a busy node."""
_FRESH_SECONDS = 5.0
"""A report that is older shows too much of the caps before: `MEASURED_SECONDS` allows for some seconds. It was judged when it came."""
_BITS = 8


@dataclass(frozen=True, slots=True)
class Findings:
    """What the pods of an attempt show: fields of the status by their Python names, conditions, and annotations that are due."""

    status: Mapping[str, Any] = field(default_factory=dict)
    judgements: Judgements = field(default_factory=dict)
    annotations: tuple[AnnotatePod, ...] = ()


def findings_of(
    observed: Observed, status: TransferJobStatus, sender: MoverPod | None, receiver: MoverPod | None, now: datetime
) -> Findings:
    """Endpoints, path, decision, progress and bandwidth as far as they are known. `status` is what is known of the attempt before."""
    reports = observed.reports
    lost = _on_lost_nodes(observed, status, sender, receiver)
    found: dict[str, Any] = {
        "endpoints": _with_caps(endpoints_of(status.endpoints, sender, receiver, reports), observed),
        "progress": progress_of(reports, status.progress, now.replace(microsecond=0)),
    }
    if lost and reports.receiver is None and found["progress"] is not None:
        # A rate and a time left would be those of a transfer of which nobody knows whether it runs.
        found["progress"] = found["progress"].model_copy(update={"rate": None, "eta": None})
    if (protocol := _protocol_in_force(reports, sender)) is not None:
        found["protocol"] = protocol
    if reports.path is not None:
        found["path"] = path_of(reports.path)
    if reports.decision is not None:
        found["decision"] = decision_of(reports.decision, status.decision, protocol)
    cap_bps = cap_of(observed)
    cap_enforced = _cap_enforced(observed, status, receiver, cap_bps)
    bandwidth = bandwidth_of(status.bandwidth, cap_bps, reports, _bound_of(observed, cap_bps))
    found["bandwidth"] = bandwidth.model_copy(update={"enforced_by": _enforced_by(observed, status, sender, cap_bps, cap_enforced)})
    if observed.job.spec.preflight_only:
        found |= checks_of(sender, receiver)
    judgements = (
        judge_preflight(status, reports, sender, receiver)
        | _scheduled(status, sender, receiver)
        | _path_probed(observed, status, found)
        | cap_enforced
        | _reports_believed(observed, status)
        | _paths_up(observed, status)
        | _nodes_ready(status, lost)
        | _protocol_kept(observed, status, sender, protocol)
    )
    annotations = _caps_at_sender(observed, sender, bandwidth.allocated) + _cap_at_receiver(observed, receiver)
    return Findings(found, judgements, annotations)


def _with_caps(endpoints: EndpointsStatus | None, observed: Observed) -> EndpointsStatus | None:
    """With what each interface of the source may send, of a job with several paths."""
    if endpoints is None or endpoints.source is None or endpoints.source.interfaces is None:
        return endpoints
    caps: dict[str | None, int | None] = {}
    lanes = lanes_of(observed, observed.latest_attempt)
    for (source, _), cap_bps in zip(lanes, path_caps_of(observed), strict=False):
        before = caps.get(source.interface, 0)
        caps[source.interface] = None if before is None or cap_bps is None else before + cap_bps
    interfaces = tuple(
        each.model_copy(update={"allocated": None if (cap_bps := caps.get(each.name)) is None else format_rate(cap_bps)})
        for each in endpoints.source.interfaces
    )
    return endpoints.model_copy(update={"source": endpoints.source.model_copy(update={"interfaces": interfaces})})


def _scheduled(status: TransferJobStatus, sender: MoverPod | None, receiver: MoverPod | None) -> dict[ConditionType, Judgement | None]:
    pods = [pod for pod in (receiver, sender) if pod is not None]
    if not pods:
        return {}
    waiting = next((pod for pod in pods if pod.node is None), None)
    if waiting is None:
        nodes = ", ".join(f"{pod.role} on {pod.node}" for pod in pods)
        why = f" ({status.placement.reason})" if status.placement and status.placement.reason else ""
        return {ConditionType.SCHEDULED: Judgement("True", Reason.PODS_SCHEDULED, f"{nodes}{why}")}
    why = ": ".join(part for part in (waiting.waiting_reason, waiting.waiting_message) if part) or "the scheduler has not placed it yet"
    message = f"{waiting.role} pod {waiting.name}: {why}"
    return {ConditionType.SCHEDULED: Judgement("False", Reason.WAITING_FOR_SCHEDULER, message)}


def _path_probed(observed: Observed, status: TransferJobStatus, found: Mapping[str, Any]) -> dict[ConditionType, Judgement | None]:
    if "decision" not in found:
        return _advisor_silent(observed, status)
    decision, measured = found["decision"], found.get("path", status.path)
    rtt = f"RTT {measured.rtt}, " if measured and measured.rtt else ""
    why = f": {decision.message}" if decision.message else ""
    message = f"{rtt}{decision.congestion_control} over {decision.streams} streams ({decision.reason}{why})"
    return {ConditionType.PATH_PROBED: Judgement("True", Reason.PROBED, message)}


def _reports_believed(observed: Observed, status: TransferJobStatus) -> dict[ConditionType, Judgement | None]:
    """That something reported is refused, and later that all is believed again; nothing while nobody answers."""
    reports, known = observed.reports, status.condition(ConditionType.REPORTS_BELIEVED)
    if reports.refusals:
        message = "; ".join(f"{refusal.role}: {refusal.message}" for refusal in reports.refusals)
        return {ConditionType.REPORTS_BELIEVED: Judgement("False", reports.refusals[0].reason, shorten(message))}
    if known is None or (reports.receiver_endpoint is None and reports.sender_endpoint is None):
        return {}
    return {ConditionType.REPORTS_BELIEVED: Judgement("True", Reason.REPORTS_PLAUSIBLE, "what the movers report now can be true")}


def _paths_up(observed: Observed, status: TransferJobStatus) -> dict[ConditionType, Judgement | None]:
    """That a path of several is lost, and later that all carry again; nothing while none was."""
    sender = observed.reports.sender
    if sender is None or not sender.paths:
        return {}
    lost = [path.interface for path in sender.paths if not path.up]
    if lost:
        rest = ", ".join(path.interface for path in sender.paths if path.up) or "none that is left"
        message = (
            f"nothing gets through from the source's interface {', '.join(lost)}: the transfer goes on over {rest}, and the path is tried"
            " again every few seconds; look at the link and at the destination's interface"
        )
        return {ConditionType.PATHS_UP: Judgement("False", Reason.PATH_LOST, message)}
    if status.condition(ConditionType.PATHS_UP) is None:
        return {}
    message = f"data flows again from every interface of the source: {', '.join(path.interface for path in sender.paths)}"
    return {ConditionType.PATHS_UP: Judgement("True", Reason.PATH_RESTORED, message)}


def _on_lost_nodes(
    observed: Observed, status: TransferJobStatus, sender: MoverPod | None, receiver: MoverPod | None
) -> tuple[MoverPod, ...]:
    """The movers that have come up, have not ended as far as is known, and whose nodes are not ready."""
    if not status.is_true(ConditionType.MOVERS_READY):
        return ()
    return tuple(pod for pod in (sender, receiver) if pod is not None and is_live(pod) and is_lost(pod, observed.nodes))


def _nodes_ready(status: TransferJobStatus, lost: tuple[MoverPod, ...]) -> dict[ConditionType, Judgement | None]:
    """That movers are on nodes of which nothing is heard, and later that all nodes are back; nothing while none was lost."""
    if lost:
        where = " and ".join(f"node {pod.node} of the {pod.role}" for pod in lost)
        both = "is not ready" if len(lost) == 1 else "are not ready"
        message = (
            f"{where} {both}: nobody knows whether data moves; the job goes on by itself when that node is back, or with a new attempt"
            " once it is removed from the cluster for good"
        )
        return {ConditionType.NODES_READY: Judgement("False", Reason.NODES_LOST, message)}
    if status.condition(ConditionType.NODES_READY) is None:
        return {}
    return {ConditionType.NODES_READY: Judgement("True", Reason.NODES_BACK, "the nodes of both movers are ready again")}


def _protocol_in_force(reports: Reports, sender: MoverPod | None) -> ProtocolInForce | None:
    """What carries the data, by the sender's verdict or, while it runs, its report."""
    if sender is not None and sender.verdict is not None and sender.verdict.protocol is not None:
        return sender.verdict.protocol
    return reports.sender.protocol if reports.sender is not None else None


def _protocol_kept(
    observed: Observed, status: TransferJobStatus, sender: MoverPod | None, in_force: ProtocolInForce | None
) -> dict[ConditionType, Judgement | None]:
    """That the data go over another protocol than the attempt was to use; nothing while they never did."""
    asked = protocol_of(observed.job.spec.transport, status.engine_choice)
    if in_force is None:
        return {}
    if in_force != asked:
        checks = sender.verdict.checks if sender is not None and sender.verdict is not None else ()
        running = observed.reports.sender.preflight_warnings if observed.reports.sender is not None else None
        told = (check.message for check in (*checks, *(running or ())) if check.reason == MoverReason.PROTOCOL_UNAVAILABLE)
        why = next(told, f"{asked} does not get through; the transfer goes on over {in_force}")
        return {ConditionType.PROTOCOL_KEPT: Judgement("False", Reason.PROTOCOL_REPLACED, shorten(why))}
    if status.condition(ConditionType.PROTOCOL_KEPT) is None:
        return {}
    return {ConditionType.PROTOCOL_KEPT: Judgement("True", Reason.PROTOCOL_IN_USE, f"the data go over {in_force} again")}


def _advisor_silent(observed: Observed, status: TransferJobStatus) -> dict[ConditionType, Judgement | None]:
    """That nobody steers the transfer. What was decided before stays decided: the condition keeps its status."""
    reports = observed.reports
    if reports.sender is None or reports.advisor_silent_seconds < _SILENT_SECONDS:
        return {}
    decided = status.is_true(ConditionType.PATH_PROBED)
    control = reports.sender.congestion_control or "the congestion control"
    streams = f"{reports.sender.streams} streams" if reports.sender.streams else "the streams"
    silence = "tells nothing any more" if decided else "has told no decision"
    message = (
        f"the advisor beside the sender {silence}: the transfer goes on with {control} over {streams}, which nobody adjusts;"
        " the log of the sender pod's container advisor says why"
    )
    return {ConditionType.PATH_PROBED: Judgement("True" if decided else "False", Reason.ADVISOR_SILENT, message)}


def cap_of(observed: Observed) -> int | None:
    """Most the job may send: its own limit or its share, whichever is less; None for no cap."""
    wanted, share = observed.job.spec.bandwidth, observed.fairness
    limit_bps = wanted.limit_bps if wanted else None
    share_bps = share.cap_bps if share else None
    if share is not None and _caps_stand(observed, share):
        share_bps = _present_cap_bps(observed)
    elif share is not None and share.path_caps_bps and not path_caps_of(observed):
        # The sender knows one cap alone, or its paths are others than those that were decided for: whichever it takes, none has too much.
        share_bps = min(cap for cap in share.path_caps_bps if cap is not None)
    return min((bps for bps in (limit_bps, share_bps) if bps is not None), default=None)


def is_allocated(observed: Observed) -> bool:
    """Whether the job has a share of a link by a FairnessPolicy, which it may take whatever others do there."""
    return observed.fairness is not None and observed.fairness.cap_bps is not None


def path_caps_of(observed: Observed) -> tuple[int | None, ...]:
    """Most the job may send on each of its paths, beside the cap of the sum; empty where nothing is said of them."""
    share, paths = observed.fairness, len(lanes_of(observed, observed.latest_attempt))
    if share is None or paths == 0:
        return ()
    if _caps_stand(observed, share):
        return _present_path_caps_bps(observed, paths)
    return share.path_caps_bps if len(share.path_caps_bps) == paths else ()


def _caps_stand(observed: Observed, share: JobShare) -> bool:
    """Whether the caps stay as they are: nothing is known that would change them, or the sender of the attempt under way has ended."""
    sender = observed.mover(Role.SENDER, observed.latest_attempt)
    return share.hold or (observed.attempt_under_way and sender is not None and not is_live(sender))


def _present_path_caps_bps(observed: Observed, paths: int) -> tuple[int | None, ...]:
    """The caps of the paths as the last sender's pod has them. Where none says so, parts of the sum: which link it is for is not known."""
    sender = max(observed.pods_of(Role.SENDER), key=lambda pod: pod.attempt, default=None)
    caps = path_caps_bps(sender.path_caps) if sender is not None and sender.watches_paths else None
    if caps is not None and len(caps) == paths:
        return caps
    total_bps = None if sender is not None and is_live(sender) else _present_cap_bps(observed)
    return () if total_bps is None else (max(1, total_bps // paths),) * paths


def _bound_of(observed: Observed, cap_bps: int | None) -> Bound | None:
    """What keeps the cap from being higher, as before while the share is left as it is; None without one."""
    wanted, share, before = observed.job.spec.bandwidth, observed.fairness, observed.job.status.bandwidth
    if share is None:
        return None
    if _caps_stand(observed, share):
        return Bound(before.bound_by, before.tenant, before.bottleneck) if before and before.bound_by else None
    if share.bound is not None and wanted is not None and wanted.limit_bps == cap_bps:
        return Bound("JobLimit", share.bound.tenant)
    return share.bound


def _present_cap_bps(observed: Observed) -> int | None:
    """The lower of the caps of the status and of the sender's pod: either may be all that was written before the operator ended, and
    the older one must not be put in force again."""
    bandwidth = observed.job.status.bandwidth
    allocated_bps = bandwidth.allocated_bps if bandwidth is not None and bandwidth.allocated is not None else None
    sender = max(observed.pods_of(Role.SENDER), key=lambda pod: pod.attempt, default=None)
    if sender is None or (allocated_bps is not None and not is_live(sender)):
        return allocated_bps
    annotated = sender.pacing_cap or sender.egress_cap
    try:
        annotated_bps = parse_rate(annotated) if annotated else None
    except RateError:
        annotated_bps = None
    return min((bps for bps in (allocated_bps, annotated_bps) if bps is not None), default=None)


def receiver_cap_of(observed: Observed) -> int | None:
    """The cap as the receiver's pod has it: only where its own interface is a shared link."""
    share = observed.fairness
    return cap_of(observed) if share is not None and share.at_receiver else None


def bucket_of(observed: Observed, cap_bps: int | None) -> int | None:
    """The rate of a bucket that stays as it is made: the most that the job may ever get, as pacing holds it to less.

    None on the nodes' network, where nothing makes one, and without a cap.
    """
    wanted, share = observed.job.spec.bandwidth, observed.fairness
    if cap_bps is None or not traits_of(observed.job).has_bucket:
        return None
    if share is None or share.ceiling_bps is None:
        return cap_bps
    limit_bps = wanted.limit_bps if wanted else None
    return max(cap_bps, share.ceiling_bps if limit_bps is None else min(share.ceiling_bps, limit_bps))


def _enforced_by(
    observed: Observed, status: TransferJobStatus, sender: MoverPod | None, cap_bps: int | None, news: Judgements
) -> Enforcement:
    if cap_bps is None:
        return "None"
    judged = news.get(ConditionType.CAP_ENFORCED) or status.condition(ConditionType.CAP_ENFORCED)
    if judged is not None and judged.status == "False":
        # The mover was given its cap, but what is measured shows that nothing enforces it.
        return "None"
    if _is_guarded(observed, cap_bps):
        return "TrafficControl"
    return "Annotation" if _is_held_by_annotation(observed, status, sender) else "Pacing"


def _is_held_by_annotation(observed: Observed, status: TransferJobStatus, sender: MoverPod | None) -> bool:
    """Whether Cilium holds the sender's pod to its annotation, which has the present cap from when the pod has an address. Once the sender
    has ended, what held it then."""
    if sender is None or not is_live(sender):
        return status.bandwidth is not None and status.bandwidth.enforced_by == "Annotation"
    return observed.bandwidth_manager and traits_of(observed.job).bucket_follows_cap and not _awaits_bucket(observed, sender)


def _is_guarded(observed: Observed, cap_bps: int) -> bool:
    return observed.settings.node_guard and traits_of(observed.job).uses_node_interfaces and cap_bps <= GUARDED_MOST_BPS


def _caps_at_sender(observed: Observed, sender: MoverPod | None, wanted: str | None) -> tuple[AnnotatePod, ...]:
    """Annotates a running sender with its cap, and with those of its paths. The pod is compared: of its annotation and the status either
    may be missing."""
    if sender is None or not is_live(sender):
        return ()
    traits = traits_of(observed.job)
    changes: dict[str, str | None] = {}
    if not watches_egress_cap(observed, sender) and sender.pacing_cap != wanted:
        changes[ANNOTATION_PACING] = wanted
    has_egress_cap = traits.bucket_follows_cap or watches_egress_cap(observed, sender)
    if has_egress_cap and sender.egress_cap != wanted and not _awaits_bucket(observed, sender):
        changes[ANNOTATION_EGRESS_BANDWIDTH] = wanted
    wanted_of_paths = format_path_caps(path_caps_of(observed))
    if sender.watches_paths and sender.path_caps != wanted_of_paths:
        changes[ANNOTATION_PATH_BANDWIDTH] = wanted_of_paths
    return (AnnotatePod(sender.name, sender.uid, changes),) if changes else ()


def _awaits_bucket(observed: Observed, pod: MoverPod) -> bool:
    """Whether a CNI plugin may still be about to make a bucket by the annotation that the pod was created with."""
    return traits_of(observed.job).bucket_follows_cap and pod.address is None


def _cap_at_receiver(observed: Observed, receiver: MoverPod | None) -> tuple[AnnotatePod, ...]:
    share = observed.fairness
    if receiver is None or not is_live(receiver) or (share is not None and share.hold) or traits_of(observed.job).needs_attachment:
        return ()
    cap_bps = receiver_cap_of(observed)
    wanted = None if cap_bps is None else format_rate(cap_bps)
    if receiver.ingress_cap == wanted or _awaits_bucket(observed, receiver):
        return ()
    return (AnnotatePod(receiver.name, receiver.uid, {ANNOTATION_INGRESS_BANDWIDTH: wanted}),)


def _cap_enforced(
    observed: Observed, status: TransferJobStatus, receiver: MoverPod | None, cap_bps: int | None
) -> dict[ConditionType, Judgement | None]:
    """The condition `CapEnforced`; none without a cap. Once the attempt's data has arrived it stays as it is, unless the cap changes."""
    if cap_bps is None:
        return {ConditionType.CAP_ENFORCED: None}
    in_force = status.bandwidth.allocated if status.bandwidth else None
    judged_before = status.condition(ConditionType.CAP_ENFORCED) is not None
    is_unasked = observed.reports.is_receiver_unasked and receiver is not None and is_live(receiver)
    has_no_news = _has_arrived(observed, receiver) or _is_between_reports(observed.reports) or is_unasked
    if judged_before and in_force == format_rate(cap_bps) and has_no_news:
        return {}
    judgement = _judge(observed, cap_bps)
    return {ConditionType.CAP_ENFORCED: replace(judgement, message=f"{judgement.message}{_what_cilium_skips(observed, cap_bps)}")}


def _what_cilium_skips(observed: Observed, cap_bps: int) -> str:
    """For who runs Cilium's bandwidth manager and may think that it holds this job too; empty where it does, and without it."""
    if not observed.bandwidth_manager or not traits_of(observed.job).uses_node_interfaces:
        return ""
    holder = "the node guard holds this job" if _is_guarded(observed, cap_bps) else "its own mover's pacing holds this job"
    return f"; Cilium's bandwidth manager skips pods on the nodes' network, {holder}"


def _has_arrived(observed: Observed, receiver: MoverPod | None) -> bool:
    """Whether the attempt's data is all there."""
    progress = observed.reports.receiver
    return progress.has_flowed if progress is not None else receiver is not None and not is_live(receiver)


def _is_between_reports(reports: Reports) -> bool:
    """Whether the receiver's last report is old because nobody has asked for another one since."""
    return reports.receiver is not None and reports.receiver_age_seconds > _FRESH_SECONDS and reports.receiver_unheard_seconds is None


def _judge(observed: Observed, cap_bps: int) -> Judgement:
    """Whether the rate at which data arrives now keeps to the cap, in view of the caps that were in force while it was measured."""
    cap, receiver = format_rate(cap_bps), observed.reports.receiver
    if receiver is None:
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: no receiver tells what arrives")
    if _is_between_reports(observed.reports):
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: the receiver is asked again before long")
    if observed.reports.receiver_age_seconds > _FRESH_SECONDS:
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: the receiver has not reported for some seconds")
    if not receiver.flows:
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap}: no data flows")
    measured_bps, allowance_bps = receiver.rate_bytes_per_second * _BITS, _granularity_bps(receiver)
    if measured_bps <= cap_bps * TOLERANCE + allowance_bps:
        return Judgement("True", Reason.WITHIN_CAP, f"the receiver measures no more than {cap}")
    asked_bps = max(observed.asked_bps or 0.0, cap_bps)
    if measured_bps <= asked_bps * TOLERANCE + allowance_bps:
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, f"cap {cap} is new: what is measured still holds the time before it")
    excess = excess_after(observed.excess, receiver.arrived, asked_bps)
    if excess is None or not excess.is_proven:
        message = f"cap {cap}: more arrives at the moment, which is usual for some seconds after a stop"
        return Judgement("Unknown", Reason.CAP_NOT_MEASURED, message)
    return Judgement("False", Reason.ABOVE_CAP, f"the receiver measures more than {cap}")


def _granularity_bps(receiver: MoverProgress) -> float:
    """The receiver counts whole blocks, so one block more or less for each stream is no fault of the pacing."""
    return BLOCK_BITS / RECEIVER_WINDOW_SECONDS * max(1, receiver.streams)
