"""From what was read to the true cause: a pure function, the most decisive first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Literal

from fairlead.api.names import CONTROLLER, FINALIZER
from fairlead.api.reasons import ConditionType, EventReason, MoverReason, Reason
from fairlead.api.shared.fields import Condition
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.account import Explanation, account_of
from fairlead.commands.explain.advice import while_it_runs
from fairlead.commands.sayings import PODS, Finding, saying_of
from fairlead.core.lifecycle.machine import HELD_UP
from fairlead.core.lifecycle.preflight import PAGE
from fairlead.plugin.why.evidence import JobEvidence, PodTrouble

UNANSWERED: Final = timedelta(seconds=5)
"""An operator that runs answers sooner."""
_LEAST_QUIET: Final = timedelta(seconds=33)
_UNREAD_PART: Final = 0.35
"""Where there are thousands of jobs the operator asks the movers of one that has run for long more rarely, and writes its progress more
rarely: at most after so much of its age."""
_LONGEST_UNREAD: Final = timedelta(minutes=12)
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""On a job, the queue by which Kueue suspends and resumes it."""
_HELD_BY_LOST_NODE: Final = " of the attempt before to be gone: its node "
_LOST_WITH_NODE: Final = "was lost with its node"
_WARNED_OF: Final = re.compile(r"(?:source|destination): ([A-Z][A-Za-z]+): ")
_POD_REASON: Final = re.compile(rf"\b({'|'.join(PODS)})\b")


class JobStanding(StrEnum):
    """How a job stands, in one word."""

    NOT_SERVED = "NotServed"
    WAITING = "Waiting"
    BLOCKED = "Blocked"
    """It cannot go on until somebody acts."""
    STARTING = "Starting"
    RETRYING = "Retrying"
    RUNNING = "Running"
    TROUBLED = "Troubled"
    """It runs, and something is not as it should be."""
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETING = "Deleting"


class Cause(ApiModel):
    """Why a job stands where it stands."""

    state: JobStanding
    reasons: tuple[str, ...]
    """Constants, the outermost first: the last one is the cause, and each one before it only says what it led to."""
    because: str
    """The cause as a clause."""
    message: str = ""
    """What the operator, a mover, the kubelet or the scheduler says of it."""
    end: Literal["source", "destination"] | None = None
    """The end of the transfer that it concerns, where that is known."""
    since: Timestamp | None = None
    remedy: str = ""
    page: str | None = None

    @property
    def reason(self) -> str:
        """The cause's constant."""
        return self.reasons[-1]


@dataclass(frozen=True, slots=True)
class _Case:
    """What the conclusions read."""

    job: TransferJob
    account: Explanation
    evidence: JobEvidence
    now: datetime

    def condition(self, kind: ConditionType) -> Condition | None:
        return self.job.status.condition(kind)

    def is_false(self, kind: ConditionType) -> Condition | None:
        found = self.condition(kind)
        return found if found is not None and found.status == "False" else None

    def is_true(self, kind: ConditionType) -> Condition | None:
        found = self.condition(kind)
        return found if found is not None and found.status == "True" else None


Conclusion = Callable[[_Case], Cause | None]


def cause_of(evidence: JobEvidence, now: datetime) -> Cause:
    """The one thing that matters most about the job now."""
    case = _Case(evidence.facts.job, account_of(evidence.facts), evidence, now)
    return next((found for conclude in _CONCLUSIONS if (found := conclude(case)) is not None), None) or _running(case)


def lesser_troubles(evidence: JobEvidence, now: datetime) -> tuple[Cause, ...]:
    """What else is not as it should be with a job that runs."""
    case = _Case(evidence.facts.job, account_of(evidence.facts), evidence, now)
    if case.job.status.finished or case.job.deleting or case.is_true(ConditionType.MOVERS_READY) is None:
        return ()
    return tuple(found for conclude in _TROUBLES if (found := conclude(case)) is not None)[1:]


def _cause(
    state: JobStanding,
    *reasons: str,
    message: str = "",
    since: datetime | None = None,
    remedy: str | None = None,
    because: str | None = None,
) -> Cause:
    said = saying_of(reasons[-1])
    is_of_preflight = reasons[-1] in _OF_PREFLIGHT
    return Cause(
        state=state,
        reasons=tuple(dict.fromkeys(reasons)),
        because=said.because if because is None else because,
        message=message,
        end=_end_of(message),
        since=since,
        remedy=said.remedy if remedy is None else remedy,
        page=f"{PAGE}#{reasons[-1].lower()}" if is_of_preflight else None,
    )


_OF_PREFLIGHT: Final = frozenset(
    {
        MoverReason.CLOCKS_DIFFER,
        MoverReason.ECHO_UNREACHABLE,
        MoverReason.INTERFACE_DOWN,
        MoverReason.PATH_MTU_TOO_SMALL,
        MoverReason.ROUTE_MISSING,
    }
)


def _end_of(message: str) -> Literal["source", "destination"] | None:
    """Which end a message is about, by how messages begin."""
    if re.match(r"(attempt \d+ failed: \w+: )?(sender|source)\b", message):
        return "source"
    if re.match(r"(attempt \d+ failed: \w+: )?(receiver|destination)\b", message):
        return "destination"
    return None


def _of_another_controller(case: _Case) -> Cause | None:
    managed_by = case.job.spec.managed_by
    if managed_by == CONTROLLER:
        return None
    return _cause(JobStanding.NOT_SERVED, Finding.OTHER_CONTROLLER, message=f"spec.managedBy is {managed_by}")


def _silent_operator(case: _Case, state: JobStanding, finding: Finding, since: datetime) -> Cause:
    """What does not come from the operator, and as far as the user may see it, why."""
    known = {"Missing": Finding.OPERATOR_MISSING, "NotRunning": Finding.OPERATOR_NOT_RUNNING}.get(case.evidence.operator or "")
    reasons = (finding,) if known is None else (finding, known)
    return _cause(state, *reasons, message=case.evidence.operator_message, since=since)


def _deleting(case: _Case) -> Cause | None:
    requested, reconciling = case.job.metadata.deletion_timestamp, case.condition(ConditionType.RECONCILING)
    if requested is None:
        return None
    foreign = [name for name in case.job.metadata.finalizers if name != FINALIZER]
    if foreign and not case.job.holds_finalizer:
        message = f"metadata.finalizers has {', '.join(foreign)}"
        return _cause(JobStanding.DELETING, Reason.DELETING, Finding.OTHER_FINALIZER, message=message, since=requested)
    cleaners = [trouble for trouble in case.evidence.troubles if trouble.role == "cleaner"]
    if (told := _of_pods(cleaners)) is not None:
        reasons = (Reason.DELETING, Finding.CLEANER_NOT_DONE, told.reason)
        return _cause(JobStanding.DELETING, *reasons, message=_words(told), since=requested)
    if (reconciling is None or reconciling.reason != Reason.DELETING) and case.now - requested > UNANSWERED:
        return _silent_operator(case, JobStanding.DELETING, Finding.DELETION_NOT_ANSWERED, requested)
    return _cause(JobStanding.DELETING, Reason.DELETING, since=requested, remedy="Wait: it ends by itself.")


def _succeeded(case: _Case) -> Cause | None:
    succeeded = case.is_true(ConditionType.SUCCEEDED)
    if succeeded is None:
        return None
    return _cause(JobStanding.SUCCEEDED, succeeded.reason, message=succeeded.message, since=succeeded.last_transition_time)


def _failed(case: _Case) -> Cause | None:
    failed, last = case.is_true(ConditionType.FAILED), case.job.status.last_failure
    if failed is None:
        return None
    reasons: tuple[str, ...] = (failed.reason,)
    message = failed.message
    if failed.reason == Reason.BACKOFF_LIMIT_EXCEEDED and last is not None:
        reasons, message = (failed.reason, last.reason), last.message
    elif failed.reason == Reason.DEADLINE_EXCEEDED:
        inner, message = _when_time_was_over(case, failed.message)
        reasons = (failed.reason, *inner)
    return _cause(JobStanding.FAILED, *reasons, *_of_death(reasons[-1], message), message=message, since=failed.last_transition_time)


def _when_time_was_over(case: _Case, message: str) -> tuple[tuple[str, ...], str]:
    """What the job was held by as its deadline came: the conditions about that stay as they were."""
    status = case.job.status
    for kind in (ConditionType.ACCEPTED, ConditionType.SCHEDULED):
        if (blocked := case.is_false(kind)) is not None:
            return (blocked.reason,), blocked.message
    if status.is_true(ConditionType.SUSPENDED):
        return (Reason.SUSPENDED,), message
    _, _, told = message.partition(HELD_UP)
    reason, colon, words = told.partition(": ")
    if colon:
        found = _POD_REASON.search(words) if reason in {Reason.RECEIVER_NOT_READY, Reason.SENDER_NOT_READY} else None
        return (reason, *((found[1],) if found else ())), words
    if status.last_failure is not None:
        return (status.last_failure.reason,), status.last_failure.message
    if (late := _late_movers(case)) is not None:
        return late
    progress = status.progress
    if progress is not None and progress.bytes_transferred:
        rate = f" at {progress.rate} bit/s" if progress.rate else ""
        return (Finding.SLOW_TRANSFER,), f"{message}; {progress.percent or 0} % had arrived{rate}"
    return (), message


def _late_movers(case: _Case) -> tuple[tuple[str, ...], str] | None:
    """What kept the movers from coming up, by the latest event about them."""
    told = [event for event in case.evidence.facts.events if event.reason in {EventReason.MOVERS_STARTED, EventReason.MOVERS_NOT_READY}]
    if not told or told[-1].reason == EventReason.MOVERS_STARTED:
        return None
    message = told[-1].message
    role = Reason.SENDER_NOT_READY if message.startswith("sender") else Reason.RECEIVER_NOT_READY
    found = _POD_REASON.search(message)
    return (role, *((found[1],) if found else ())), message


def _of_death(reason: str, message: str) -> tuple[str, ...]:
    """Why a pod ended without a verdict, as far as its message has the kubelet's word for it."""
    if reason != Reason.MOVER_DIED:
        return ()
    found = _POD_REASON.search(message)
    return (found[1],) if found else ("NodeLost",) if _LOST_WITH_NODE in message else ()


def _not_taken_up(case: _Case) -> Cause | None:
    if case.job.status.conditions:
        return None
    created = case.job.metadata.creation_timestamp
    if case.now - created <= UNANSWERED:
        because = "it was created a moment ago"
        return _cause(JobStanding.WAITING, Finding.NOT_TAKEN_UP, because=because, since=created, remedy="Look again in some seconds.")
    return _silent_operator(case, JobStanding.NOT_SERVED, Finding.NOT_TAKEN_UP, created)


def _spec_not_answered(case: _Case) -> Cause | None:
    changed = case.evidence.spec_changed_at
    if changed is None or case.now - changed <= UNANSWERED:
        return None
    return _silent_operator(case, JobStanding.NOT_SERVED, Finding.SPEC_NOT_ANSWERED, changed)


def _suspended(case: _Case) -> Cause | None:
    suspended = case.is_true(ConditionType.SUSPENDED)
    if suspended is None:
        return None
    if suspended.reason == Reason.QUEUE_NEEDS_BANDWIDTH:
        return _of_condition(JobStanding.BLOCKED, suspended)
    queue = case.job.metadata.labels.get(KUEUE_QUEUE)
    if queue is not None:
        message = f"the label {KUEUE_QUEUE} names queue {queue}"
        return _cause(
            JobStanding.SUSPENDED, Reason.SUSPENDED, Finding.QUEUED_BY_KUEUE, message=message, since=suspended.last_transition_time
        )
    return _of_condition(JobStanding.SUSPENDED, suspended)


def _not_accepted(case: _Case) -> Cause | None:
    accepted = case.is_false(ConditionType.ACCEPTED)
    return None if accepted is None else _of_condition(_held(case), accepted)


def _refused(case: _Case) -> Cause | None:
    ready = case.is_false(ConditionType.MOVERS_READY)
    return _of_condition(JobStanding.BLOCKED, ready) if ready is not None and ready.reason == Reason.CREATION_REFUSED else None


def _not_scheduled(case: _Case) -> Cause | None:
    scheduled = case.is_false(ConditionType.SCHEDULED)
    if scheduled is None:
        return None
    if scheduled.reason != Reason.WAITING_FOR_SCHEDULER:
        return _of_condition(_held(case), scheduled)
    told = _of_pods(case.evidence.troubles)
    if told is None and (found := _POD_REASON.search(scheduled.message)) is not None:
        return _of_condition(JobStanding.WAITING, scheduled, found[1])
    if told is None:
        return _of_condition(JobStanding.WAITING, scheduled)
    return _cause(JobStanding.WAITING, scheduled.reason, told.reason, message=_words(told), since=scheduled.last_transition_time)


def _held(case: _Case) -> JobStanding:
    return JobStanding.BLOCKED if case.is_true(ConditionType.STALLED) else JobStanding.WAITING


def _backing_off(case: _Case) -> Cause | None:
    ready, last = case.is_false(ConditionType.MOVERS_READY), case.job.status.last_failure
    if ready is None or ready.reason != Reason.BACKING_OFF or last is None:
        return None
    inner = _of_death(last.reason, last.message)
    return _cause(JobStanding.RETRYING, ready.reason, last.reason, *inner, message=ready.message, since=last.time)


def _starting(case: _Case) -> Cause | None:
    ready = case.is_false(ConditionType.MOVERS_READY)
    if ready is None:
        return None
    if _HELD_BY_LOST_NODE in ready.message:
        return _of_condition(JobStanding.WAITING, ready, Finding.POD_OF_LOST_NODE)
    told = _of_pods(case.evidence.troubles)
    if ready.reason == Reason.ATTACHMENT_FAILED:
        return _of_condition(JobStanding.STARTING, ready)
    if told is not None:
        outer = (ready.reason,) if ready.reason != Reason.MOVERS_STARTING else ()
        return _cause(JobStanding.STARTING, *outer, told.reason, message=_words(told), since=ready.last_transition_time)
    probed = case.is_false(ConditionType.PATH_PROBED)
    if probed is not None and probed.reason == Reason.PATH_LEASED:
        return _of_condition(JobStanding.WAITING, probed)
    found = _POD_REASON.search(ready.message)
    return _of_condition(JobStanding.STARTING, ready, *((found[1],) if found else ()))


def _of_pods(troubles: Iterable[PodTrouble]) -> PodTrouble | None:
    """The first trouble that says something: what the kubelet says of a container that waits comes before what events tell."""
    return next((trouble for trouble in troubles if trouble.reason in PODS), None)


def _words(trouble: PodTrouble) -> str:
    return f"{trouble.role} pod {trouble.pod}: {trouble.reason}{f': {trouble.message}' if trouble.message else ''}"


def _of_condition(state: JobStanding, condition: Condition, *inner: str) -> Cause:
    return _cause(state, condition.reason, *inner, message=condition.message, since=condition.last_transition_time)


def _while_false(kind: ConditionType) -> Conclusion:
    """A trouble that lasts as long as a condition is False, which tells of it."""

    def conclude(case: _Case) -> Cause | None:
        condition = case.is_false(kind)
        return None if condition is None else _of_condition(JobStanding.TROUBLED, condition)

    return conclude


def _no_progress(case: _Case) -> Cause | None:
    """The status is written at each per cent, and at most every 10 s: three times as long without it means that the rate has fallen. Of a
    job that has run for long nothing may have been read for minutes."""
    progress = case.job.status.progress
    if progress is None or not progress.bytes_total or not progress.rate or progress.last_progress_time is None or progress.percent == 100:
        return None
    try:
        rate_bps = parse_rate(progress.rate)
    except RateError:
        return None
    quiet = case.now - progress.last_progress_time
    per_cent = timedelta(seconds=progress.bytes_total * 8 / 100 / rate_bps) if rate_bps else timedelta(0)
    begun = case.job.status.attempt_start_time
    unread = timedelta(0) if begun is None else min(_UNREAD_PART * (case.now - begun), _LONGEST_UNREAD)
    if quiet <= max(_LEAST_QUIET, unread, 3 * per_cent):
        return None
    message = f"the last progress was {quiet.total_seconds():.0f} s ago, at {progress.rate} bit/s"
    return _cause(JobStanding.TROUBLED, Finding.NO_PROGRESS, message=message, since=progress.last_progress_time)


def _unsteered(case: _Case) -> Cause | None:
    probed = case.condition(ConditionType.PATH_PROBED)
    return _of_condition(JobStanding.TROUBLED, probed) if probed is not None and probed.reason == Reason.ADVISOR_SILENT else None


def _less_than_asked(case: _Case) -> Cause | None:
    accepted = case.is_true(ConditionType.ACCEPTED)
    if accepted is None or accepted.reason not in {Reason.GUARANTEE_NOT_RAISED, Reason.INTERFACE_NOT_LISTED}:
        return None
    return _of_condition(JobStanding.TROUBLED, accepted)


def _warned(case: _Case) -> Cause | None:
    checked = case.is_true(ConditionType.PREFLIGHT_PASSED)
    if checked is None or checked.reason != Reason.PASSED_WITH_WARNINGS:
        return None
    inner = _WARNED_OF.search(checked.message)
    return _of_condition(JobStanding.TROUBLED, checked, *((inner[1],) if inner else ()))


_TROUBLES: tuple[Conclusion, ...] = (
    _while_false(ConditionType.REPORTS_BELIEVED),
    _while_false(ConditionType.CAP_ENFORCED),
    _while_false(ConditionType.NODES_READY),
    _while_false(ConditionType.PATHS_UP),
    _while_false(ConditionType.PROTOCOL_KEPT),
    _no_progress,
    _unsteered,
    _less_than_asked,
    _warned,
)


def _troubled(case: _Case) -> Cause | None:
    return next((found for conclude in _TROUBLES if (found := conclude(case)) is not None), None)


def _running(case: _Case) -> Cause:
    """What keeps a job that runs well from being faster."""
    probed = case.is_false(ConditionType.PATH_PROBED)
    if probed is not None and probed.reason == Reason.PROBING and not _moved(case):
        return _of_condition(JobStanding.RUNNING, probed)
    bandwidth, ready = case.account.bandwidth, case.condition(ConditionType.MOVERS_READY)
    since = ready.last_transition_time if ready else None
    part = float(bandwidth.part_of_cap) if bandwidth.part_of_cap is not None else None
    if bandwidth.cap is None:
        reason, because = "NoCap", "nothing caps it: disks, the path and the traffic beside it decide its rate"
    elif part is None:
        reason, because = "CapNotMeasured", f"it may send {bandwidth.cap} bit/s, and nothing is measured yet"
    elif part < _AT_CAP:
        reason = "BelowCap"
        because = f"its cap of {bandwidth.cap} bit/s is not what holds it back: disks, the path or the traffic beside it do"
    else:
        reason = bandwidth.bound_by or "Cap"
        because = _BOUNDS.get(reason, "it runs at its cap of {cap} bit/s").format(
            cap=bandwidth.cap, link=bandwidth.bottleneck, tenant=bandwidth.tenant_name
        )
    return _cause(JobStanding.RUNNING, reason, because=because, since=since, remedy=while_it_runs(case.account))


def _moved(case: _Case) -> bool:
    progress = case.job.status.progress
    return progress is not None and bool(progress.bytes_transferred)


_AT_CAP: Final = 0.9
_BOUNDS: Final = {
    "JobLimit": "its own bandwidth.limit of {cap} bit/s holds it",
    "TenantLimit": "the limit of tenant {tenant} on link {link} leaves it {cap} bit/s",
    "Link": "link {link} is full, and {cap} bit/s is its fair part",
}

_CONCLUSIONS: tuple[Conclusion, ...] = (
    _of_another_controller,
    _deleting,
    _succeeded,
    _failed,
    _not_taken_up,
    _spec_not_answered,
    _suspended,
    _not_accepted,
    _refused,
    _not_scheduled,
    _backing_off,
    _starting,
    _troubled,
)
