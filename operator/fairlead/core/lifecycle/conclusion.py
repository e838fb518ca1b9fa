"""From an outcome to the plan: the one place where a job's state becomes conditions, its status and the next pass."""

from __future__ import annotations

from datetime import datetime, timedelta

from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.shared.fields import ConditionStatus
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.conditions import Conditions
from fairlead.core.lifecycle.events import events_between
from fairlead.core.lifecycle.outcome import JobOutcome, JobState, Judgement, Judgements, earliest
from fairlead.core.observed import Observed, Role
from fairlead.core.plan import DeleteCredentials, DeletePod, Plan
from fairlead.core.pod_record import record_of, releases_of
from fairlead.core.status import is_progress_alone, phase_of, progress_of, waits_for_others, written_in

_SOON = timedelta(milliseconds=100)
_ATTEMPT_UNDER_WAY = frozenset({JobState.STARTING, JobState.RUNNING, JobState.UNDER_WAY, JobState.HALF_FAILED})
_NO_MOVERS = {
    JobState.WAITING: "no mover runs while the job waits",
    JobState.BLOCKED: "no mover runs while the job waits",
    JobState.SUSPENDED: "the job is suspended",
    JobState.SUCCEEDED: "the job has ended",
    JobState.FAILED: "the job has ended",
}
_PROGRESSES = _ATTEMPT_UNDER_WAY | {JobState.CLEARING, JobState.BACKING_OFF, JobState.WAITING, JobState.DELETING}
_STANDS = frozenset({JobState.WAITING, JobState.BLOCKED, JobState.SUSPENDED, JobState.BACKING_OFF, JobState.FAILED})
_STALLS = frozenset({JobState.BLOCKED, JobState.REFUSED, JobState.FAILED})


def plan_of(observed: Observed, outcome: JobOutcome, now: datetime) -> Plan:
    """The finished plan; the status is left out unless it is worth a write."""
    before = observed.job.status
    unknown = outcome.status.keys() - (TransferJobStatus.model_fields.keys() - {"conditions"})
    if unknown:
        raise TypeError(f"an outcome may not set {', '.join(sorted(unknown))} of the status")
    latest_attempt = max(observed.latest_attempt, outcome.status.get("attempts") or 0)
    unconditional = {"pods": record_of(observed, latest_attempt), "observed_generation": observed.job.metadata.generation}
    after = before.model_copy(update={**outcome.status, **unconditional})
    conditions = Conditions(before.conditions, generation=observed.job.metadata.generation, now=now.replace(microsecond=0))
    for kind, judgement in {**outcome.judgements, **judgements_of(outcome, after.attempts or 0)}.items():
        if judgement is None:
            conditions.remove(kind)
        else:
            conditions.set(kind, judgement.status, judgement.reason, judgement.message)
    if observed.attempt_under_way and "progress" not in outcome.status:
        # An end that does not come from the movers leaves how far they were.
        after = after.model_copy(update={"progress": progress_of(observed.reports, before.progress, now.replace(microsecond=0))})
    if outcome.state in _STANDS and after.progress is not None:
        # A rate and a time left would be those of movers that run no more.
        after = after.model_copy(update={"progress": after.progress.model_copy(update={"rate": None, "eta": None})})
    after = after.model_copy(update={"conditions": conditions.build()})
    after = after.model_copy(update={"phase": phase_of(after)})
    effects = outcome.effects
    youngest = max((pod.created_at for pod in observed.movers), default=None)
    waits = waits_for_others(before, after, now, observed.progress_writes)
    due_in = None if waits else written_in(before, after, now, observed.settings, youngest)
    # A pod that is created is recorded at once, and all else with it.
    is_written = due_in is not None and (not due_in or bool(effects.creates))
    return Plan(
        finalizer=effects.finalizer,
        credentials=effects.credentials,
        deletes=effects.deletes,
        ended_credentials=_ended_credentials(observed, after, effects.deletes),
        creates=effects.creates,
        annotations=effects.annotations,
        status=after if is_written else None,
        progress_alone=is_written and is_progress_alone(before, after),
        releases=releases_of(observed, (removal.uid for removal in effects.deletes)),
        # An event of a status that is not written would be emitted again by the next pass.
        events=(events_between(before, after) if is_written else ()) + effects.events,
        delete_job=effects.delete_job,
        proofs=effects.proofs,
        asks_for_links=outcome.asks_for_links,
        requeue_after=_next_pass(outcome.wake_after, None if is_written else due_in),
    )


def _next_pass(*after: timedelta | None) -> timedelta | None:
    first = earliest(*after)
    return None if first is None else max(first, _SOON)


def _ended_credentials(observed: Observed, after: TransferJobStatus, removed: tuple[DeletePod, ...]) -> tuple[DeleteCredentials, ...]:
    """The credentials of attempts that end with this pass. Without its receiver an attempt cannot go on."""
    uids = {pod.uid for pod in removed}
    attempts = {pod.attempt for pod in observed.pods_of(Role.RECEIVER) if pod.uid in uids}
    if observed.attempt_under_way and after.attempt_start_time is None:
        attempts.add(observed.latest_attempt)
    return tuple(DeleteCredentials(attempt) for attempt in sorted(attempts))


def judgements_of(outcome: JobOutcome, attempt: int) -> Judgements:
    """The conditions that follow from the state alone; `attempt` is the number of the latest one."""
    if outcome.state is JobState.UNCHANGED:
        return {}
    return _movers_ready(outcome) | _kstatus(outcome, attempt) | _end(outcome)


def _movers_ready(outcome: JobOutcome) -> dict[ConditionType, Judgement]:
    match outcome.state:
        case JobState.UNDER_WAY | JobState.DELETING:
            return {}
        case JobState.RUNNING:
            judgement = Judgement("True", Reason.MOVERS_RUNNING, outcome.message)
        case JobState.STARTING | JobState.BACKING_OFF | JobState.REFUSED:
            judgement = Judgement("False", outcome.reason, outcome.message)
        case JobState.CLEARING:
            judgement = Judgement("False", Reason.MOVERS_STARTING, outcome.message)
        case _:
            judgement = Judgement("False", Reason.MOVERS_STOPPED, _NO_MOVERS.get(outcome.state, outcome.message))
    return {ConditionType.MOVERS_READY: judgement}


def _kstatus(outcome: JobOutcome, attempt: int) -> dict[ConditionType, Judgement]:
    """The two conditions that kstatus reads: whether the job goes on by itself, and whether it needs somebody."""
    reason, message = outcome.reason, outcome.message
    if outcome.state in _ATTEMPT_UNDER_WAY:
        reason, message = Reason.IN_PROGRESS, f"attempt {attempt} is under way"
    elif outcome.state is JobState.SUCCEEDED:
        reason = Reason.FINISHED
    return {
        ConditionType.RECONCILING: Judgement(_truth(outcome.state in _PROGRESSES), reason, message),
        ConditionType.STALLED: Judgement(_truth(outcome.state in _STALLS), reason, message),
    }


def _end(outcome: JobOutcome) -> dict[ConditionType, Judgement]:
    match outcome.state:
        case JobState.SUCCEEDED:
            return {ConditionType.SUCCEEDED: Judgement("True", outcome.reason, outcome.message)}
        case JobState.FAILED:
            return {
                ConditionType.FAILED: Judgement("True", outcome.reason, outcome.message),
                ConditionType.SUCCEEDED: Judgement("False", outcome.reason, outcome.message),
            }
        case _:
            return {}


def _truth(value: bool) -> ConditionStatus:
    return "True" if value else "False"
