"""One attempt: a receiver, then a sender, both of the same number, until one verdict decides. Attempts are fenced by their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fairlead.api.names import is_child_name
from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.api.shared.quantity import format_duration
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.spec import Side
from fairlead.api.transferjob.status import EngineChoice, FailureStatus, PlacementStatus
from fairlead.core.attachments import attachment_failure, attachment_suspicion
from fairlead.core.conditions import shorten
from fairlead.core.lifecycle import report
from fairlead.core.lifecycle.outcome import JobEffects, JobOutcome, JobState, Judgement, Judgements, deletes, stops
from fairlead.core.lifecycle.placing import labels_of, pause_after, placed_end, placed_of
from fairlead.core.network import ends_of, traits_of
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role, running_movers
from fairlead.core.paths import engines
from fairlead.core.paths.model import ProbeAssignment, Probing
from fairlead.core.plan import CreateCredentials, CreatePod
from fairlead.core.ports import BLOCK, choose_port_base, is_share_used_up
from fairlead.core.reports import Verdict
from fairlead.core.status import final_progress, reached_progress
from fairlead.core.verdicts import Failure, failure_of_attempt, has_ended, is_live

_PATIENCE = timedelta(seconds=5)
"""How long a mover may be on its way up before the status reports trouble."""

_OF_ONE_ATTEMPT = (
    ConditionType.CAP_ENFORCED,
    ConditionType.PREFLIGHT_PASSED,
    ConditionType.REPORTS_BELIEVED,
    ConditionType.PATHS_UP,
    ConditionType.NODES_READY,
    ConditionType.PROTOCOL_KEPT,
)
"""Conditions that are absent when an attempt begins, whatever the one before left."""
_UNSCHEDULABLE = "Unschedulable"
_PASSING = frozenset({"SchedulingGated", _UNSCHEDULABLE, "SchedulerError"})
"""Waiting reasons that a new pod often has for a second or two, for example while its claim is being bound."""

_OTHER_END = timedelta(seconds=10)
"""How long the other end's verdict is waited for when the first one's reason does not explain the failure."""

_PROBING_POLL = timedelta(seconds=1)
"""How often the advisor is asked for its decision: a small transfer ends soon after it."""

_PROBED_LATER = Judgement("False", Reason.PROBING, "the path is measured once both movers are up")

_LAST_WORD = timedelta(seconds=5)
"""How long a success waits for what nobody has read: the sender's pod brings the decision when its sidecar ends, and its checks."""


OF_A_BEGINNING = frozenset({"attempts", "attempt_start_time", "start_time", "placement", "engine_choice"})
"""Fields of the status that are written as an attempt begins."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt in the course of a pass. `status` is what is known of it so far: nothing of the attempts before."""

    number: int
    receiver: MoverPod | None
    sender: MoverPod | None
    status: TransferJobStatus

    @property
    def pods(self) -> tuple[MoverPod, ...]:
        return tuple(pod for pod in (self.receiver, self.sender) if pod is not None)


def start_or_wait(observed: Observed, now: datetime) -> JobOutcome:
    """Starts the next attempt, unless a pause is due or the pods of the one before are not gone yet."""
    status, number = observed.job.status, observed.latest_attempt
    failure = status.last_failure
    if failure is not None and failure.attempt == number:
        pause = pause_after(observed, status.failures, failure)
        if now < failure.time + pause:
            return _back_off(observed, failure, pause, now)
    leftovers = observed.movers
    removal = JobOutcome(effects=JobEffects(deletes=deletes(leftovers)))
    held_by = next((pod for pod in leftovers if is_live(pod) or pod.deleting), None)
    if held_by is not None:
        message = f"waiting for pod {held_by.name} of the attempt before to be gone{_of_lost_node(observed, held_by)}"
        clearing = JobOutcome(JobState.CLEARING, Reason.IN_PROGRESS, message, wake_after=observed.settings.poll_interval)
        return removal.then(clearing)
    return removal.then(_carry_on(observed, number + 1, now.replace(microsecond=0), now))


def carry_on(observed: Observed, now: datetime) -> JobOutcome:
    """Takes the attempt under way as far as its pods allow."""
    status, number = observed.job.status, observed.latest_attempt
    begins_at = None
    if status.attempts != number or status.attempt_start_time is None:
        receiver = observed.mover(Role.RECEIVER, number)
        begins_at = receiver.created_at if receiver else now.replace(microsecond=0)
    return _carry_on(observed, number, begins_at, now)


def succeed(observed: Observed, receiver: MoverPod, verdict: Verdict, now: datetime) -> JobOutcome:
    """Ends the job well, on the receiver's verdict, or waits a moment for the advisor's decision, or for the sender's checks."""
    status, number, stored_now = observed.job.status, observed.latest_attempt, now.replace(microsecond=0)
    findings = report.findings_of(observed, status, observed.mover(Role.SENDER, number), receiver, now)
    found = JobOutcome(status=findings.status, judgements=findings.judgements, effects=JobEffects(annotations=findings.annotations))
    until = _last_word_awaited_until(observed, receiver, now)
    if until is not None and now < until:
        return found.waking_after(until - now).waking_after(_PROBING_POLL)
    ended: dict[str, Any] = {
        "attempts": number,
        "attempt_start_time": None,
        "start_time": status.start_time or stored_now,
        "completion_time": stored_now,
    }
    if observed.job.spec.preflight_only:
        message = "every check passed at both ends; nothing was moved"
        return found.then(JobOutcome(JobState.SUCCEEDED, MoverReason.PREFLIGHT_PASSED, message, status=ended))
    resumed = f", {verdict.bytes_resumed} bytes were there from earlier attempts" if verdict.bytes_resumed else ""
    message = (
        f"{verdict.bytes_total} bytes in {verdict.files_total} files are at the destination and verified"
        f" ({verdict.bytes_sent} bytes sent in {verdict.seconds:.1f} s{resumed})"
    )
    ended["progress"] = final_progress(verdict, findings.status["progress"], stored_now)
    return found.then(JobOutcome(JobState.SUCCEEDED, verdict.reason, message, status=ended))


def give_up_refused(observed: Observed, message: str, now: datetime) -> JobOutcome:
    """Ends the attempt whose sender may not be created, and counts no failure: its receiver would keep what others' senders wait for."""
    number = observed.latest_attempt
    failure = FailureStatus(attempt=number, reason=Reason.CREATION_REFUSED, message=shorten(message), time=now.replace(microsecond=0))
    ended = {"attempts": number, "attempt_start_time": None, "last_failure": failure}
    pause = pause_after(observed, observed.job.status.failures, failure)
    return JobOutcome(status=ended).then(_back_off(observed, failure, pause, now))


def fail_job(observed: Observed, number: int, reason: str, message: str, now: datetime) -> JobOutcome:
    """Ends the job for good in attempt `number` (0 if none was started), without success."""
    ended = {"attempts": number or None, "attempt_start_time": None, "completion_time": now.replace(microsecond=0)}
    return JobOutcome(JobState.FAILED, reason, message, status=ended, effects=stops(observed.movers))


def _last_word_awaited_until(observed: Observed, receiver: MoverPod, now: datetime) -> datetime | None:
    """Until when a proven success waits, so that the status can show how the transfer was made or what was checked; None for not at all."""
    sender = observed.mover(Role.SENDER, receiver.attempt)
    decision_known = observed.reports.decision is not None or observed.job.status.is_true(ConditionType.PATH_PROBED)
    has_spoken = sender is not None and sender.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    # Without a sender there is no success: one that is not shown is behind, and may come.
    if decision_known or receiver.ended_at is None or has_spoken:
        return None
    # A node whose clock is ahead of ours says nothing of how long that is ago.
    return receiver.ended_at + _LAST_WORD if receiver.ended_at <= now + _LAST_WORD else None


def _carry_on(observed: Observed, number: int, begins_at: datetime | None, now: datetime) -> JobOutcome:
    """The attempt as far as its pods allow; `begins_at` is its start if it begins with this pass."""
    status, begun = observed.job.status, JobOutcome(JobState.UNDER_WAY)
    if begins_at is not None:
        # With a receiver that is there already, what it was started with is fixed.
        is_new = observed.mover(Role.RECEIVER, number) is None
        choice = _choose_engine(observed, number) if is_new else status.engine_choice
        begun = _begin(status, number, begins_at, placed_of(observed, number), choice)
        status = _without_former(status, begun.status)
    attempt = _Attempt(number, observed.mover(Role.RECEIVER, number), observed.mover(Role.SENDER, number), status)
    findings = report.findings_of(observed, status, attempt.sender, attempt.receiver, now)
    attempt = replace(attempt, status=status.model_copy(update=dict(findings.status)))
    others = deletes(pod for pod in observed.movers if pod.attempt != number)
    outcome = begun.then(
        JobOutcome(
            status=findings.status, judgements=findings.judgements, effects=JobEffects(deletes=others, annotations=findings.annotations)
        )
    )
    failure = failure_of_attempt(attempt.pods, _vanished(observed, attempt), observed.nodes, observed.job)
    if failure is None:
        brought_up, failure = _bring_up(observed, attempt, now)
        outcome = outcome.then(brought_up)
    if failure is not None:
        outcome = outcome.then(_end_failed(observed, attempt, failure, now))
    if any(running_movers(observed.pods)):
        # They are polled, and a pass follows each poll; without one there would be nothing new to go by.
        return outcome
    is_without_movers = not attempt.pods and not outcome.effects.creates
    return outcome.waking_after(observed.settings.recheck_interval if is_without_movers else observed.settings.poll_interval)


def _choose_engine(observed: Observed, number: int) -> EngineChoice | None:
    """What carries the data of the attempt that begins, of a job that leaves it open; None for TCP without anything to weigh."""
    known = observed.engines
    if known is None:
        return None
    node = observed.transfer_nodes.get(ends_of(observed, number)[0].node or "")
    cpus = [float(count) for count in (observed.settings.mover_cpus, node.cpus if node is not None else None) if count is not None]
    return engines.choose(
        engines.EngineQuestion(
            known.results,
            rtt_seconds=known.rtt_seconds,
            allowed_bps=report.cap_of(observed),
            allocated=report.is_allocated(observed),
            cpus=min(cpus, default=None),
            not_allowed=engines.ruled_out(observed.job),
        )
    )


def _begin(
    status: TransferJobStatus, number: int, started: datetime, placed: PlacementStatus | None, choice: EngineChoice | None
) -> JobOutcome:
    bandwidth = status.bandwidth
    return JobOutcome(
        JobState.STARTING,
        Reason.MOVERS_STARTING,
        _starting(number, Role.RECEIVER),
        status={
            "attempts": number,
            "attempt_start_time": started,
            "start_time": status.start_time or started,
            "placement": placed,
            "progress": None,
            "protocol": None,
            "engine_choice": choice,
            "bandwidth": bandwidth.model_copy(update={"measured": None}) if bandwidth else None,
        },
        judgements={
            ConditionType.SUCCEEDED: Judgement("Unknown", Reason.IN_PROGRESS, "the job has not ended"),
            ConditionType.PATH_PROBED: _PROBED_LATER,
            **dict.fromkeys(_OF_ONE_ATTEMPT),
        },
    )


def _without_former(status: TransferJobStatus, begun: Mapping[str, Any]) -> TransferJobStatus:
    """What of the status holds for an attempt that begins."""
    former = (*_OF_ONE_ATTEMPT, ConditionType.MOVERS_READY, ConditionType.PATH_PROBED)
    conditions = tuple(condition for condition in status.conditions if condition.type not in former)
    return status.model_copy(update={**begun, "conditions": conditions})


def _vanished(observed: Observed, attempt: _Attempt) -> tuple[str, ...]:
    """Names of this attempt's pods that were seen once and are not there any more."""
    endpoints, metadata = attempt.status.endpoints, observed.job.metadata
    seen = {end.pod for end in (endpoints.source, endpoints.destination) if end and end.pod} if endpoints else set()
    missing = [role for pod, role in ((attempt.receiver, Role.RECEIVER), (attempt.sender, Role.SENDER)) if pod is None]
    return tuple(name for role in missing for name in sorted(seen) if is_child_name(name, metadata.name, role.value, attempt.number))


def _bring_up(observed: Observed, attempt: _Attempt, now: datetime) -> tuple[JobOutcome, Failure | None]:
    """Creates what is missing and watches it come up; a failure if that takes too long."""
    receiver, sender = attempt.receiver, attempt.sender
    if attempt.status.is_true(ConditionType.MOVERS_READY) or any(pod.deleting or has_ended(pod) for pod in attempt.pods):
        return JobOutcome(), None
    if receiver is None:
        return _create_receiver(observed, attempt), None
    if sender is None:
        if receiver.ready and observed.reports.receiver_endpoint is not None:
            return _awaits_probe(observed, receiver, now) or _create_sender(observed, attempt), None
        refused = next((refusal for refusal in observed.reports.refusals if refusal.role == Role.RECEIVER.value), None)
        if refused is not None:
            return _not_ready(observed, receiver, Reason.ENDPOINT_REFUSED, refused.message, now, asked_at=_asked_at(observed, now))
        if not receiver.ready:
            return _not_ready(observed, receiver, Reason.RECEIVER_NOT_READY, "", now)
        return _not_heard(observed, receiver, now)
    if sender.ready and receiver.ready:
        up = JobOutcome(JobState.RUNNING, Reason.MOVERS_RUNNING, f"attempt {attempt.number}: sender and receiver are up")
        return up, None
    if not receiver.ready:
        return _not_ready(observed, receiver, Reason.RECEIVER_NOT_READY, "", now)
    return _not_ready(observed, sender, Reason.SENDER_NOT_READY, "", now)


def _awaits_probe(observed: Observed, receiver: MoverPod, now: datetime) -> JobOutcome | None:
    """The sender waits because another job probes the path, as two probes at a time would see each other; None if it does not."""
    path = observed.path
    # A node whose clock is ahead must not keep the sender waiting for as long as that.
    ready_since = receiver.ready_since if receiver.ready_since is not None and receiver.ready_since <= now else receiver.created_at
    until = ready_since + observed.settings.probe_wait
    if observed.job.spec.preflight_only or path is None or path.probing is not Probing.LEASED or now >= until:
        return None
    message = f"another job probes the path: the sender starts when that has ended, at {until:%H:%M:%SZ} at the latest"
    leased: Judgements = {ConditionType.PATH_PROBED: Judgement("False", Reason.PATH_LEASED, message)}
    return JobOutcome(judgements=leased).waking_after(until - now).waking_after(_PROBING_POLL)


def _create_receiver(observed: Observed, attempt: _Attempt) -> JobOutcome:
    source = observed.job.spec.source
    if traits_of(observed.job).uses_node_interfaces:
        # A receiver whose sender gets no ports would hold its own for nothing, and give up after a while.
        for_sender = _block(observed, attempt.number, Role.SENDER, _node_for(observed, attempt, Role.SENDER, source))
        if isinstance(for_sender, Judgement):
            return JobOutcome(judgements={ConditionType.SCHEDULED: for_sender})
    created = _create(observed, attempt, Role.RECEIVER, observed.job.spec.destination, report.receiver_cap_of(observed))
    if not created.effects.creates:
        return created
    # A check leaves no partial files.
    finalizer = None if observed.job.holds_finalizer or observed.job.spec.preflight_only else True
    return created.then(JobOutcome(effects=JobEffects(credentials=(CreateCredentials(attempt.number),), finalizer=finalizer)))


def _create_sender(observed: Observed, attempt: _Attempt) -> JobOutcome:
    created = _create(observed, attempt, Role.SENDER, observed.job.spec.source, report.cap_of(observed))
    if not created.effects.creates:
        return created
    path = observed.path if observed.path is not None and not observed.job.spec.preflight_only else ProbeAssignment()
    receiver = observed.reports.receiver_endpoint
    creates = tuple(
        replace(
            action,
            receiver=receiver,
            path=path.known,
            probe=path.probing is Probing.OWN,
            path_caps_bps=report.path_caps_of(observed),
            allocated=report.is_allocated(observed),
        )
        for action in created.effects.creates
    )
    judgements: Judgements = {**created.judgements, ConditionType.PATH_PROBED: _PROBED_LATER}
    return replace(created, effects=replace(created.effects, creates=creates), judgements=judgements)


def _create(observed: Observed, attempt: _Attempt, role: Role, side: Side, cap_bps: int | None) -> JobOutcome:
    """A pod with its ports; on the nodes' network a block of its own, without which the job is not scheduled."""
    node, on_host_network = _node_for(observed, attempt, role, side), traits_of(observed.job).uses_node_interfaces
    placed = placed_end(attempt.status, role)
    interfaces = ((placed.interfaces if placed else None) or side.named_interfaces) if on_host_network else ()
    # In a network of its own nobody else has ports, so every such pod has the same.
    port_base = _block(observed, attempt.number, role, node) if on_host_network else observed.settings.ports.first
    if isinstance(port_base, Judgement):
        return JobOutcome(judgements={ConditionType.SCHEDULED: port_base})
    bucket_bps = report.bucket_of(observed, cap_bps)
    action = CreatePod(
        role,
        attempt.number,
        node,
        port_base,
        cap_bps=cap_bps,
        bucket_bps=bucket_bps,
        protocol=engines.protocol_of(observed.job.spec.transport, attempt.status.engine_choice),
        on_host_network=on_host_network,
        interfaces=interfaces,
        node_labels=() if node is not None else labels_of(side),
    )
    starting = _starting(attempt.number, role)
    return JobOutcome(JobState.STARTING, Reason.MOVERS_STARTING, starting, effects=JobEffects(creates=(action,)))


def _node_for(observed: Observed, attempt: _Attempt, role: Role, side: Side) -> str | None:
    """Where the attempt's pod of this role belongs; None where the scheduler chooses."""
    placed = placed_end(attempt.status, role)
    return (placed.node if placed else None) or side.node or observed.claim_node(side)


def _block(observed: Observed, number: int, role: Role, node: str | None) -> int | Judgement:
    """The first port of a free block on `node`, or why there is none."""
    ports, in_use, metadata = observed.settings.ports, observed.ports_in_use, observed.job.metadata
    where = f"on node {node}" if node else "on a node"
    # Receivers that have the whole share would wait for senders that get no block, and none of their jobs would ever end.
    if is_share_used_up(node, in_use, ports, leaves_blocks=1 if role is Role.RECEIVER else 0):
        message = (
            f"jobs of namespace {metadata.namespace} hold or wait for {ports.most_of_namespace} blocks of ports {where}, which is all that"
            " one namespace may have; the job starts when another one of the namespace ends, or an administrator raises the chart value"
            " ports.namespacePercent"
        )
        return Judgement("False", Reason.PORT_SHARE_USED_UP, message)
    own = frozenset(pod.port_base for pod in observed.pods if pod.port_base is not None)
    failure, leaves_last = observed.job.status.last_failure, role is Role.RECEIVER
    by_strangers = frozenset(failure.taken_ports or ()) if failure is not None else frozenset()
    seed = f"{metadata.uid}/{number}/{role}"
    port_base = choose_port_base(seed, node, in_use, own, ports, by_strangers=by_strangers, leaves_last=leaves_last)
    if port_base is not None:
        return port_base
    left = " or left to senders" if leaves_last else ""
    message = (
        f"all ports {ports.first}-{ports.last} {where} are taken by other jobs{left};"
        " the job waits, or an administrator widens the chart value ports"
    )
    return Judgement("False", Reason.NO_PORT_FREE, message)


def _of_lost_node(observed: Observed, pod: MoverPod) -> str:
    """Why a pod stays, where that is its node. It may still run there, so nothing else may take its place."""
    facts = observed.nodes.get(pod.node or "")
    if facts is None or (facts.exists and facts.ready):
        return ""
    return f": its node {pod.node} is not ready; the job goes on once the node is back, or is removed from the cluster for good"


def _starting(number: int, role: Role) -> str:
    return f"attempt {number}: the {role} is being started"


def _not_heard(observed: Observed, receiver: MoverPod, now: datetime) -> tuple[JobOutcome, Failure | None]:
    """A receiver that is up, and whose endpoint is not known yet."""
    reports, ports = observed.reports, observed.settings.ports
    if not reports.is_receiver_unasked:
        silent = "it is up, but does not answer on its HTTP port"
        return _not_ready(observed, receiver, Reason.RECEIVER_NOT_READY, silent, now, asked_at=_asked_at(observed, now))
    if receiver.port_base is None or receiver.port_base < ports.first or receiver.port_base + BLOCK - 1 > ports.last:
        strange = f"its ports are not all of {ports.first}-{ports.last} (chart value ports), so that it is not asked"
        return _not_ready(observed, receiver, Reason.RECEIVER_NOT_READY, strange, now)
    asked, _ = running_movers(observed.pods)
    if asked is None or asked.uid != receiver.uid:
        part = "it cannot be asked: it has no address, or one of its containers has not run yet"
        return _not_ready(observed, receiver, Reason.RECEIVER_NOT_READY, part, now)
    # However long it has been up: this operator has just begun to lead, or has more to do than it can.
    starting = JobOutcome(JobState.STARTING, Reason.MOVERS_STARTING, _starting(receiver.attempt, receiver.role))
    return starting.waking_after(observed.settings.startup_timeout), None


def _asked_at(observed: Observed, now: datetime) -> datetime | None:
    """Since when the receiver has been asked for its endpoint in vain; None where it was not."""
    seconds = observed.reports.endpoint_unheard_seconds
    return None if seconds is None else now - timedelta(seconds=seconds)


def _not_ready(
    observed: Observed, pod: MoverPod, reason: Reason, silent: str, now: datetime, *, asked_at: datetime | None = None
) -> tuple[JobOutcome, Failure | None]:
    """A mover that has not come up yet, and a failure once that has taken as long as it may; from `asked_at` on where it is only silent."""
    begun = observed.job.status.attempt_start_time
    # A pod that is older than its attempt was dated by a clock behind ours.
    since = pod.created_at if begun is None else max(pod.created_at, begun)
    # One that waited for room on its node starts there only now, and one that was ready may be so again.
    later = (at for at in (pod.placed_at, pod.unready_since, asked_at) if at is not None and at <= now)
    since = max((since, *later))
    age, timeout = now - since, observed.settings.startup_timeout
    because = ": ".join(part for part in (pod.waiting_reason, pod.waiting_message or silent) if part)
    unattached = attachment_failure(observed, pod)
    if unattached is not None:
        reason, because = Reason.ATTACHMENT_FAILED, unattached
    because = because or f"its container has not become ready{attachment_suspicion(observed.job, pod)}"
    message = f"{pod.role} pod {pod.name} is not ready: {because}"
    if age >= _PATIENCE or unattached is not None or (pod.waiting_reason and pod.waiting_reason not in _PASSING):
        outcome = JobOutcome(JobState.STARTING, reason, message)
    else:
        outcome = JobOutcome(JobState.STARTING, Reason.MOVERS_STARTING, _starting(pod.attempt, pod.role), wake_after=_PATIENCE - age)
    if age < timeout:
        return outcome.waking_after(timeout - age), None
    waited = f"{message} (waited {format_duration(timeout.total_seconds())})"
    # A mover for which no node has room has failed at nothing; what the other end holds goes to others until the next attempt.
    is_unplaced = pod.node is None and pod.waiting_reason == _UNSCHEDULABLE
    return outcome, Failure(reason, waited, retry=True, telling=True, counts=not is_unplaced)


def _end_failed(observed: Observed, attempt: _Attempt, failure: Failure, now: datetime) -> JobOutcome:
    earlier = attempt.status.last_failure
    first_seen = earlier.time if earlier is not None and earlier.attempt == attempt.number else now.replace(microsecond=0)
    record = FailureStatus(
        attempt=attempt.number,
        reason=str(failure.reason),
        message=shorten(failure.message),
        time=first_seen,
        taken_ports=_ports_of_strangers(observed, attempt),
    )
    verdict = attempt.receiver.verdict if attempt.receiver is not None else None
    known = {} if verdict is None or not verdict.bytes_total else {"progress": reached_progress(verdict, attempt.status.progress)}
    recorded = JobOutcome(status={"last_failure": record, **known})
    other_may_explain = any(not has_ended(pod) for pod in attempt.pods) and any(has_ended(pod) for pod in attempt.pods)
    if not failure.telling and other_may_explain and now < first_seen + _OTHER_END:
        message = f"attempt {attempt.number}: one end has failed ({failure.reason}); waiting for the other end's verdict"
        return recorded.then(JobOutcome(JobState.HALF_FAILED, failure.reason, message, wake_after=first_seen + _OTHER_END - now))
    if not failure.retry or observed.job.spec.preflight_only:
        return recorded.then(fail_job(observed, attempt.number, failure.reason, failure.message, now))
    if not failure.counts:
        recorded = recorded.then(JobOutcome(status={"attempt_start_time": None}))
        return recorded.then(_back_off(observed, record, pause_after(observed, attempt.status.failures, record), now))
    failures, limit = (attempt.status.failures or 0) + 1, observed.job.spec.backoff_limit
    recorded = recorded.then(JobOutcome(status={"failures": failures, "attempt_start_time": None}))
    if failures > limit:
        message = f"{failures} attempts failed, backoffLimit is {limit}; the last one: {failure.reason}: {failure.message}"
        return recorded.then(fail_job(observed, attempt.number, Reason.BACKOFF_LIMIT_EXCEEDED, message, now))
    return recorded.then(_back_off(observed, record, pause_after(observed, failures, record), now))


def _ports_of_strangers(observed: Observed, attempt: _Attempt) -> tuple[int, ...] | None:
    """First ports of the blocks in which a mover found a port of its own taken: no other mover can have had it on its node."""
    if not traits_of(observed.job).uses_node_interfaces:
        return None
    found = (pod for pod in attempt.pods if pod.verdict is not None and pod.verdict.reason == MoverReason.ADDRESS_IN_USE)
    return tuple(sorted({pod.port_base for pod in found if pod.port_base is not None})) or None


def _back_off(observed: Observed, failure: FailureStatus, pause: timedelta, now: datetime) -> JobOutcome:
    resumes = failure.time + pause
    message = (
        f"attempt {failure.attempt} failed: {failure.reason}: {failure.message};"
        f" the next attempt starts {format_duration(pause.total_seconds())} after that, at {resumes:%H:%M:%SZ}"
    )
    return JobOutcome(JobState.BACKING_OFF, Reason.BACKING_OFF, message, effects=stops(observed.movers), wake_after=resumes - now)
