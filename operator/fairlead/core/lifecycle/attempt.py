"""One attempt: a receiver, then a sender, both of the same number, until one verdict decides. Attempts are fenced by their number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fairlead.api.quantity import format_duration
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.spec import Side
from fairlead.api.status import FailureStatus
from fairlead.core import attachment
from fairlead.core.backoff import delay_after
from fairlead.core.conditions import shorten
from fairlead.core.lifecycle import report
from fairlead.core.lifecycle.draft import Draft
from fairlead.core.model import CreateCredentials, CreatePod, MoverPod, PathStanding, PodPhase, Probing, Role, Verdict
from fairlead.core.ports import choose_port_base, taken_on
from fairlead.core.status import final_progress
from fairlead.core.verdicts import Failure, failure_of_attempt, has_ended, is_live

_PATIENCE = timedelta(seconds=5)
"""How long a mover may be on its way up before the status speaks of trouble."""

_PASSING = frozenset({"Unschedulable", "SchedulerError"})
"""What a new pod often says for a second or two, for example while its claim is being bound."""

_HEARING = timedelta(seconds=10)
"""How long the other end is waited for when the first one's reason says little."""

_PROBING_POLL = timedelta(seconds=1)
"""How often the advisor is asked for its decision: a small transfer ends soon after it."""

_PROBED_LATER = "the path is measured once both movers are up"

_LAST_WORD = timedelta(seconds=5)
"""How long a success waits for a decision that nobody has seen: the sender's pod brings it when its sidecar ends."""


def present(draft: Draft) -> int:
    """Number of the latest attempt, 0 before the first. A pod may be ahead of a status that was not written."""
    return max([draft.status.attempts or 0, *(pod.attempt for pod in draft.movers())])


def is_under_way(draft: Draft) -> bool:
    """Whether the latest attempt has been started and has not been ended."""
    return draft.status.attempt_start_time is not None or present(draft) > (draft.status.attempts or 0)


def start_or_wait(draft: Draft) -> None:
    """Starts the next attempt, unless a pause is due or the one before is not gone yet."""
    failure = draft.status.last_failure
    if failure is not None and failure.attempt == present(draft):
        resumes = failure.time + _pause(draft)
        if draft.now < resumes:
            _back_off(draft, failure, resumes)
            return
    leftovers = draft.movers()
    draft.delete(leftovers)
    if any(is_live(pod) or pod.deleting for pod in leftovers):
        message = f"waiting for pod {leftovers[0].name} of the attempt before to be gone"
        draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STARTING, message)
        draft.kstatus(reconciling=True, stalled=False, reason=Reason.IN_PROGRESS, message=message)
        draft.wake_after(draft.settings.poll_interval)
        return
    _begin(draft, present(draft) + 1, draft.stored_now)
    carry_on(draft)


def carry_on(draft: Draft) -> None:
    """Takes the attempt under way as far as its pods allow."""
    number = present(draft)
    receiver, sender = draft.mover(Role.RECEIVER, number), draft.mover(Role.SENDER, number)
    if draft.status.attempts != number or draft.status.attempt_start_time is None:
        _begin(draft, number, receiver.created_at if receiver else draft.stored_now)
    pair = _Pair(number, receiver, sender)
    draft.kstatus(reconciling=True, stalled=False, reason=Reason.IN_PROGRESS, message=f"attempt {number} is under way")
    draft.delete(pod for pod in draft.movers() if pod.attempt != number)
    report.observe(draft, sender, receiver)
    failure = failure_of_attempt(pair.pods, _vanished(draft, pair), draft.observed.nodes, draft.job)
    if failure is None:
        failure = _bring_up(draft, pair)
    if failure is not None:
        _end_failed(draft, pair, failure)
    probed = draft.conditions.get(ConditionType.PATH_PROBED)
    awaited = probed is None or (probed.status != "True" and probed.reason != Reason.ADVISOR_SILENT)
    probing = draft.conditions.is_true(ConditionType.MOVERS_READY) and awaited
    draft.wake_after(min(draft.settings.poll_interval, _PROBING_POLL) if probing else draft.settings.poll_interval)


def hears_the_advisor_out(draft: Draft) -> bool:
    """Whether a proven success shall wait a moment, so that the status can tell how the transfer was made."""
    receiver, sender = (draft.mover(role, present(draft)) for role in (Role.RECEIVER, Role.SENDER))
    known = draft.observed.reports.decision is not None or draft.conditions.is_true(ConditionType.PATH_PROBED)
    if known or receiver is None or receiver.ended_at is None or sender is None:
        return False
    until = receiver.ended_at + _LAST_WORD
    if draft.now >= until or sender.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
        return False
    report.observe(draft, sender, receiver)
    draft.wake_at(until)
    draft.wake_after(_PROBING_POLL)
    return True


def succeed(draft: Draft, verdict: Verdict) -> None:
    """Ends the job well, on the receiver's verdict."""
    number = present(draft)
    report.observe(draft, draft.mover(Role.SENDER, number), draft.mover(Role.RECEIVER, number))
    draft.change(
        attempts=number,
        attempt_start_time=None,
        start_time=draft.status.start_time or draft.stored_now,
        completion_time=draft.stored_now,
        progress=final_progress(verdict, draft.status.progress, draft.stored_now),
    )
    resumed = f", {verdict.bytes_resumed} bytes were there from earlier attempts" if verdict.bytes_resumed else ""
    message = (
        f"{verdict.bytes_total} bytes in {verdict.files_total} files are at the destination and verified"
        f" ({verdict.bytes_sent} bytes sent in {verdict.seconds:.1f} s{resumed})"
    )
    draft.conditions.set(ConditionType.SUCCEEDED, "True", verdict.reason, message)
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STOPPED, "the job has ended")
    draft.kstatus(reconciling=False, stalled=False, reason=Reason.FINISHED, message=message)


def fail_job(draft: Draft, reason: str, message: str) -> None:
    """Ends the job for good, without success."""
    draft.change(attempts=present(draft) or None, attempt_start_time=None, completion_time=draft.stored_now)
    draft.conditions.set(ConditionType.FAILED, "True", reason, message)
    draft.conditions.set(ConditionType.SUCCEEDED, "False", reason, message)
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STOPPED, "the job has ended")
    draft.kstatus(reconciling=False, stalled=True, reason=reason, message=message)
    draft.delete_live_movers()


@dataclass(frozen=True, slots=True)
class _Pair:
    attempt: int
    receiver: MoverPod | None
    sender: MoverPod | None

    @property
    def pods(self) -> tuple[MoverPod, ...]:
        return tuple(pod for pod in (self.receiver, self.sender) if pod is not None)


def _begin(draft: Draft, number: int, started: datetime) -> None:
    bandwidth = draft.status.bandwidth
    draft.change(
        attempts=number,
        attempt_start_time=started,
        start_time=draft.status.start_time or started,
        progress=None,
        bandwidth=bandwidth.model_copy(update={"measured": None}) if bandwidth else None,
    )
    draft.conditions.remove(ConditionType.CAP_ENFORCED)
    draft.conditions.set(ConditionType.SUCCEEDED, "Unknown", Reason.IN_PROGRESS, "the job has not ended")
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STARTING, _starting(number, Role.RECEIVER))
    draft.conditions.set(ConditionType.PATH_PROBED, "False", Reason.PROBING, _PROBED_LATER)


def _vanished(draft: Draft, pair: _Pair) -> tuple[str, ...]:
    """Names of this attempt's pods that were seen once and are not there any more."""
    endpoints = draft.status.endpoints
    seen = {end.pod for end in (endpoints.source, endpoints.destination) if end} if endpoints else set()
    expected = ((pair.receiver, Role.RECEIVER), (pair.sender, Role.SENDER))
    return tuple(name for pod, role in expected if pod is None and (name := draft.child_name(role, pair.attempt)) in seen)


def _bring_up(draft: Draft, pair: _Pair) -> Failure | None:
    """Creates what is missing and watches it come up. Returns a failure if that takes too long."""
    if draft.conditions.is_true(ConditionType.MOVERS_READY) or any(pod.deleting for pod in pair.pods):
        return None
    if pair.receiver is None:
        _create_receiver(draft, pair)
        return None
    endpoint = draft.observed.reports.receiver_endpoint
    if pair.sender is None:
        if pair.receiver.ready and endpoint is not None:
            if not _awaits_probe(draft, pair.receiver):
                _create(draft, pair, Role.SENDER, draft.job.spec.source)
            return None
        silent = "" if not pair.receiver.ready else "it is up, but does not answer on its HTTP port"
        return _not_ready(draft, pair.receiver, Reason.RECEIVER_NOT_READY, silent)
    if pair.sender.ready and pair.receiver.ready:
        draft.conditions.set(
            ConditionType.MOVERS_READY, "True", Reason.MOVERS_RUNNING, f"attempt {pair.attempt}: sender and receiver are up"
        )
        return None
    late = pair.receiver if not pair.receiver.ready else pair.sender
    return _not_ready(draft, late, Reason.RECEIVER_NOT_READY if late is pair.receiver else Reason.SENDER_NOT_READY, "")


def _awaits_probe(draft: Draft, receiver: MoverPod) -> bool:
    """Whether the sender shall wait because another job probes the path: two probes at a time would see each other."""
    standing = draft.observed.path
    until = (receiver.ready_since or receiver.created_at) + draft.settings.probe_wait
    if standing is None or standing.probing is not Probing.LEASED or draft.now >= until:
        return False
    message = f"another job probes the path: the sender starts when that has ended, at {until:%H:%M:%SZ} at the latest"
    draft.conditions.set(ConditionType.PATH_PROBED, "False", Reason.PATH_LEASED, message)
    draft.wake_at(until)
    draft.wake_after(_PROBING_POLL)
    return True


def _create_receiver(draft: Draft, pair: _Pair) -> None:
    if _create(draft, pair, Role.RECEIVER, draft.job.spec.destination):
        draft.add(credentials=(CreateCredentials(pair.attempt),))
        if not draft.holds_finalizer():
            draft.add(finalizer=True)


def _create(draft: Draft, pair: _Pair, role: Role, side: Side) -> bool:
    claim = draft.observed.claims.get(side.volume.persistent_volume_claim.claim_name)
    node = side.node or (claim.node if claim else None)
    own = frozenset(pod.port_base for pod in draft.observed.pods if pod.port_base is not None)
    seed = f"{draft.job.metadata.uid}/{pair.attempt}/{role}"
    taken = taken_on(node, draft.observed.ports_in_use) | own
    port_base = choose_port_base(seed, taken, first=draft.settings.port_first, last=draft.settings.port_last)
    if port_base is None:
        ports = f"{draft.settings.port_first}-{draft.settings.port_last}"
        message = (
            f"all ports {ports} on node {node or '(any)'} are taken by other jobs;"
            " the job waits, or an administrator widens the chart value ports"
        )
        draft.conditions.set(ConditionType.SCHEDULED, "False", Reason.NO_PORT_FREE, message)
        return False
    cap_bps = report.cap_of(draft) if role is Role.SENDER else report.receiver_cap_of(draft)
    action = CreatePod(role, pair.attempt, node, port_base, cap_bps=cap_bps, bucket_bps=report.bucket_of(draft, cap_bps))
    if role is Role.SENDER:
        standing = draft.observed.path or PathStanding()
        action = replace(
            action,
            receiver=draft.observed.reports.receiver_endpoint,
            path=standing.known,
            probe=standing.probing is Probing.OWN,
        )
        draft.conditions.set(ConditionType.PATH_PROBED, "False", Reason.PROBING, _PROBED_LATER)
    draft.add(creates=(action,))
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STARTING, _starting(pair.attempt, role))
    return True


def _starting(number: int, role: Role) -> str:
    return f"attempt {number}: the {role} is being started"


def _not_ready(draft: Draft, pod: MoverPod, reason: Reason, silent: str) -> Failure | None:
    age = draft.now - pod.created_at
    because = ": ".join(part for part in (pod.waiting_reason, pod.waiting_message or silent) if part)
    because = because or f"its container has not become ready{attachment.suspicion(draft.job, pod)}"
    message = f"{pod.role} pod {pod.name} is not ready: {because}"
    if age >= _PATIENCE or (pod.waiting_reason and pod.waiting_reason not in _PASSING):
        draft.conditions.set(ConditionType.MOVERS_READY, "False", reason, message)
    else:
        draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STARTING, _starting(pod.attempt, pod.role))
        draft.wake_at(pod.created_at + _PATIENCE)
    timeout = draft.settings.startup_timeout
    if age < timeout:
        draft.wake_at(pod.created_at + timeout)
        return None
    return Failure(reason, f"{message} (waited {format_duration(timeout.total_seconds())})", retry=True, telling=True)


def _end_failed(draft: Draft, pair: _Pair, failure: Failure) -> None:
    earlier = draft.status.last_failure
    first_seen = earlier.time if earlier is not None and earlier.attempt == pair.attempt else draft.stored_now
    record = FailureStatus(attempt=pair.attempt, reason=str(failure.reason), message=shorten(failure.message), time=first_seen)
    draft.change(last_failure=record)
    other_may_speak = any(not has_ended(pod) for pod in pair.pods) and any(has_ended(pod) for pod in pair.pods)
    if not failure.telling and other_may_speak and draft.now < first_seen + _HEARING:
        message = f"attempt {pair.attempt}: one end has failed ({failure.reason}); waiting for the other end's verdict"
        draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STOPPED, message)
        draft.wake_at(first_seen + _HEARING)
        return
    draft.delete_live_movers()
    if not failure.retry:
        fail_job(draft, failure.reason, failure.message)
        return
    failures = (draft.status.failures or 0) + 1
    draft.change(failures=failures, attempt_start_time=None)
    limit = draft.job.spec.backoff_limit
    if failures > limit:
        message = f"{failures} attempts failed, backoffLimit is {limit}; the last one: {failure.reason}: {failure.message}"
        fail_job(draft, Reason.BACKOFF_LIMIT_EXCEEDED, message)
        return
    _back_off(draft, record, first_seen + _pause(draft))


def _pause(draft: Draft) -> timedelta:
    return delay_after(draft.status.failures or 1, first=draft.settings.backoff_first, most=draft.settings.backoff_most)


def _back_off(draft: Draft, failure: FailureStatus, resumes: datetime) -> None:
    message = (
        f"attempt {failure.attempt} failed: {failure.reason}: {failure.message};"
        f" the next attempt starts {format_duration(_pause(draft).total_seconds())} after that, at {resumes:%H:%M:%SZ}"
    )
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.BACKING_OFF, message)
    draft.kstatus(reconciling=True, stalled=False, reason=Reason.BACKING_OFF, message=message)
    draft.delete_live_movers()
    draft.wake_at(resumes)
