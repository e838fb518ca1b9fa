"""The life of a job as one pure function: from everything observed, and the time, to what is to be done.

The state is derived from facts on every pass: pods, verdicts, conditions that latch, timestamps. `status.phase` is never read.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason
from fairlead.core.fairness.model import Admission
from fairlead.core.lifecycle import attempt, ending
from fairlead.core.lifecycle.admission import FOR_LINKS, Obstacle, may_use_links, obstacle_to_start, withdrawn_permission
from fairlead.core.lifecycle.conclusion import plan_of
from fairlead.core.lifecycle.outcome import JobOutcome, JobState, Judgement, stops
from fairlead.core.observed import Observed, Role
from fairlead.core.plan import Plan
from fairlead.core.queueing import QUEUE_LABEL, is_queued, rate_of
from fairlead.core.verdicts import is_live, proven_success

_PASSES = frozenset({Reason.NO_SLOT_FREE, Reason.SLOT_SHARE_USED_UP})
"""What only others' jobs cause, so that a job that only checks waits for it too."""

HELD_UP = "; what held it up: "
"""In the message of a missed deadline: a reason and a message follow, with a colon between them."""
_HOLDS = frozenset({JobState.WAITING, JobState.BLOCKED, JobState.CLEARING, JobState.STARTING, JobState.REFUSED})


def decide(observed: Observed, now: datetime) -> Plan:
    """What shall be done for this job at `now` (with a time zone). Repeating it on the outcome changes nothing."""
    if observed.job.spec.managed_by != CONTROLLER:
        return Plan()
    outcome = _outcome(observed, now)
    if observed.refusal and outcome.effects.creates:
        outcome = _refused(observed, outcome, now)
    return plan_of(observed, outcome, now)


def _outcome(observed: Observed, now: datetime) -> JobOutcome:
    job = observed.job
    if job.metadata.deletion_timestamp is not None:
        return ending.dismantle(observed, job.metadata.deletion_timestamp, now)
    if job.status.finished:
        return ending.finish(observed, now)
    ended = _success(observed, now) or _missed_deadline(observed, now)
    if ended is not None:
        return ended.waking_after(observed.settings.poll_interval)
    return _go_on(observed, now).waking_after(_time_to_deadline(observed, now))


def _go_on(observed: Observed, now: datetime) -> JobOutcome:
    return _suspend(observed) if observed.job.spec.suspend else _run(observed, now)


def _refused(observed: Observed, outcome: JobOutcome, now: datetime) -> JobOutcome:
    """Reports why nothing could be created. What was refused is left out, so that the status gets through; the next pass tries again.

    Without a receiver no attempt begins, and without a sender it ends: neither slots nor quota are held for movers that do not come.
    """
    roles = {create.role for create in outcome.effects.creates}
    outcome = replace(outcome, effects=replace(outcome.effects, creates=(), credentials=())).waking_after(
        observed.settings.recheck_interval
    )
    if observed.job.status.finished and not observed.job.deleting:
        return outcome
    message = f"the API server refuses to create a mover pod: {observed.refusal}"
    if Role.SENDER in roles:
        return outcome.then(attempt.give_up_refused(observed, message, now))
    outcome = outcome.then(JobOutcome(JobState.REFUSED, Reason.CREATION_REFUSED, message))
    if Role.RECEIVER not in roles:
        return outcome
    if observed.attempt_under_way:
        return outcome.then(_stop_uncounted(observed))
    return replace(outcome, status={name: value for name, value in outcome.status.items() if name not in attempt.OF_A_BEGINNING})


def _success(observed: Observed, now: datetime) -> JobOutcome | None:
    receiver = observed.mover(Role.RECEIVER, observed.latest_attempt)
    verdict = proven_success(receiver, observed.job.metadata.uid)
    return None if receiver is None or verdict is None else attempt.succeed(observed, receiver, verdict, now)


def _time_to_deadline(observed: Observed, now: datetime) -> timedelta | None:
    seconds, started = observed.job.spec.active_deadline_seconds, observed.job.status.start_time
    return None if seconds is None or started is None else started + timedelta(seconds=seconds) - now


def _missed_deadline(observed: Observed, now: datetime) -> JobOutcome | None:
    left = _time_to_deadline(observed, now)
    if left is None or left > timedelta():
        return None
    message = f"the job did not end within activeDeadlineSeconds ({observed.job.spec.active_deadline_seconds} s){_held_up(observed, now)}"
    return attempt.fail_job(observed, observed.latest_attempt, Reason.DEADLINE_EXCEEDED, message, now)


def _held_up(observed: Observed, now: datetime) -> str:
    """What this pass would have found to be in the job's way: the conditions of its movers are about to say that they are stopped."""
    found = _go_on(observed, now)
    if observed.refusal and found.effects.creates:
        found = _refused(observed, found, now)
    if found.state is JobState.BACKING_OFF:
        failure = found.status.get("last_failure") or observed.job.status.last_failure
        return f"{HELD_UP}{failure.reason}: attempt {failure.attempt} failed: {failure.message}" if failure is not None else ""
    is_new = found.reason == Reason.MOVERS_STARTING
    return f"{HELD_UP}{found.reason}: {found.message}" if found.state in _HOLDS and not is_new else ""


def _suspend(observed: Observed) -> JobOutcome:
    message = "spec.suspend is true: movers are stopped, partial data is kept; set it to false to go on"
    # A suspended job has no share and no place: what was reported of them would be untrue, and its time in the queue would count on.
    state, reason = JobState.SUSPENDED, Reason.SUSPENDED
    if observed.settings.kueue and is_queued(observed.job) and rate_of(observed.job) is None:
        state, reason = JobState.BLOCKED, Reason.QUEUE_NEEDS_BANDWIDTH
        message = (
            f"queue {observed.job.metadata.labels[QUEUE_LABEL]} of Kueue gives out bandwidth, and the job does not say how much it needs:"
            " set bandwidth.limit or bandwidth.guarantee"
        )
    judgements = {
        ConditionType.SUSPENDED: Judgement("True", reason, message),
        ConditionType.SCHEDULED: None,
        ConditionType.CAP_ENFORCED: None,
    }
    suspended = JobOutcome(state, reason, message, status={"bandwidth": None}, judgements=judgements)
    return suspended.then(_stop_uncounted(observed))


def _run(observed: Observed, now: datetime) -> JobOutcome:
    resumed = JobOutcome()
    if observed.job.status.is_true(ConditionType.SUSPENDED):
        message = "spec.suspend is false: the job goes on with a new attempt"
        resumed = JobOutcome(judgements={ConditionType.SUSPENDED: Judgement("False", Reason.RESUMED, message)})
    under_way = observed.attempt_under_way
    obstacle = withdrawn_permission(observed) if under_way else obstacle_to_start(observed)
    asks = not under_way and not observed.job.spec.preflight_only and (obstacle is None or obstacle.reason in FOR_LINKS)
    resumed = replace(resumed, asks_for_links=asks)
    if obstacle is not None:
        return resumed.then(_wait_for(observed, obstacle, now))
    if not under_way and not may_use_links(observed):
        # The fairness loop answers at once; the status stays as it is until then.
        return resumed.waking_after(observed.settings.poll_interval)
    go_on = attempt.carry_on if under_way else attempt.start_or_wait
    return resumed.then(_accepted(observed)).then(go_on(observed, now))


def _accepted(observed: Observed) -> JobOutcome:
    share = observed.fairness
    reason, message = Reason.VALID, "namespace, nodes and claims allow the job to run"
    if share is not None and share.admission is Admission.ADMITTED and share.message:
        unlisted = share.reason is Reason.INTERFACE_NOT_LISTED
        reason, message = Reason.INTERFACE_NOT_LISTED if unlisted else Reason.GUARANTEE_NOT_RAISED, share.message
    return JobOutcome(judgements={ConditionType.ACCEPTED: Judgement("True", reason, message)})


def _wait_for(observed: Observed, obstacle: Obstacle, now: datetime) -> JobOutcome:
    judgements = {
        ConditionType.ACCEPTED: Judgement("True", Reason.VALID, "namespace and claims allow the job to run"),
        obstacle.condition: Judgement("False", obstacle.reason, obstacle.message),
    }
    judged = JobOutcome(judgements=judgements)
    if obstacle.terminal or (observed.job.spec.preflight_only and obstacle.reason not in _PASSES):
        # Whoever asks whether a job can run is told that it cannot, at once.
        return judged.then(attempt.fail_job(observed, observed.latest_attempt, obstacle.reason, obstacle.message, now))
    state = JobState.BLOCKED if obstacle.needs_person else JobState.WAITING
    waiting = JobOutcome(state, obstacle.reason, obstacle.message, wake_after=observed.settings.recheck_interval)
    return judged.then(waiting).then(_stop_uncounted(observed))


def _stop_uncounted(observed: Observed) -> JobOutcome:
    """Stops the attempt under way without counting it as failed."""
    ended = {"attempts": observed.latest_attempt, "attempt_start_time": None} if observed.attempt_under_way else {}
    stopping = any(is_live(pod) for pod in observed.movers)
    return JobOutcome(status=ended, effects=stops(observed.movers), wake_after=observed.settings.poll_interval if stopping else None)
