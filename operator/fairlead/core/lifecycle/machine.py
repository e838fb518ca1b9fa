"""The life of a job as one pure function: from everything observed, and the time, to what is to be done.

The state is derived from facts on every pass: pods, verdicts, conditions that latch, timestamps. `status.phase` is never read.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, Reason
from fairlead.core.lifecycle import attempt, ending
from fairlead.core.lifecycle.admission import Obstacle, may_use_links, obstacle_to_start, withdrawn_permission
from fairlead.core.lifecycle.draft import Draft
from fairlead.core.model import Admission, Observed, Plan, Role
from fairlead.core.verdicts import is_live, proven_success

_FOR_LINKS = frozenset({Reason.WAITING_FOR_LINK, Reason.GUARANTEE_TOO_LARGE})


def decide(observed: Observed, now: datetime) -> Plan:
    """What shall be done for this job at `now` (with a time zone). Repeating it on the outcome changes nothing."""
    if observed.job.spec.managed_by != CONTROLLER:
        return Plan()
    draft = Draft(observed, now)
    _decide(draft)
    if observed.refusal and draft.effects.creates:
        _report_refusal(draft, observed.refusal)
    return draft.plan()


def _decide(draft: Draft) -> None:
    job = draft.job
    if job.metadata.deletion_timestamp is not None:
        ending.dismantle(draft, job.metadata.deletion_timestamp)
    elif draft.status.finished:
        ending.finish(draft)
    elif _succeeds(draft) or _misses_deadline(draft):
        draft.wake_after(draft.settings.poll_interval)
    elif job.spec.suspend:
        _suspend(draft)
    else:
        _run(draft)


def _report_refusal(draft: Draft, refusal: str) -> None:
    """Says why nothing could be created. What was refused is left out, so that the status gets through; the next pass tries again."""
    draft.add(creates=(), credentials=())
    if draft.job.deleting or not draft.status.finished:
        message = f"the API server refuses to create a mover pod: {refusal}"
        draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.CREATION_REFUSED, message)
        draft.kstatus(reconciling=False, stalled=True, reason=Reason.CREATION_REFUSED, message=message)
    draft.wake_after(draft.settings.recheck_interval)


def _succeeds(draft: Draft) -> bool:
    receiver = draft.mover(Role.RECEIVER, attempt.present(draft))
    verdict = proven_success(receiver, draft.job.metadata.uid)
    if verdict is None:
        return False
    if not attempt.hears_the_advisor_out(draft):
        attempt.succeed(draft, verdict)
    return True


def _misses_deadline(draft: Draft) -> bool:
    seconds, started = draft.job.spec.active_deadline_seconds, draft.status.start_time
    if seconds is None or started is None:
        return False
    deadline = started + timedelta(seconds=seconds)
    if draft.now < deadline:
        draft.wake_at(deadline)
        return False
    attempt.fail_job(draft, Reason.DEADLINE_EXCEEDED, f"the job did not end within activeDeadlineSeconds ({seconds} s)")
    return True


def _suspend(draft: Draft) -> None:
    message = "spec.suspend is true: movers are stopped, partial data is kept; set it to false to go on"
    draft.conditions.set(ConditionType.SUSPENDED, "True", Reason.SUSPENDED, message)
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STOPPED, "the job is suspended")
    draft.kstatus(reconciling=False, stalled=False, reason=Reason.SUSPENDED, message=message)
    # A suspended job has no share and no place: what was said of them would be untrue, and its time in the queue would count on.
    draft.conditions.remove(ConditionType.SCHEDULED)
    draft.conditions.remove(ConditionType.CAP_ENFORCED)
    draft.change(bandwidth=None)
    _stop_uncounted(draft)


def _run(draft: Draft) -> None:
    if draft.conditions.is_true(ConditionType.SUSPENDED):
        draft.conditions.set(ConditionType.SUSPENDED, "False", Reason.RESUMED, "spec.suspend is false: the job goes on with a new attempt")
    under_way = attempt.is_under_way(draft)
    obstacle = withdrawn_permission(draft.observed) if under_way else obstacle_to_start(draft.observed)
    if obstacle is None or obstacle.reason in _FOR_LINKS:
        draft.add(asks_for_links=not under_way)
    if obstacle is not None:
        _wait_for(draft, obstacle)
        return
    if not under_way and not may_use_links(draft.observed):
        # The fairness loop answers at once; the status has nothing to say until then.
        draft.wake_after(draft.settings.poll_interval)
        return
    _accept(draft)
    if under_way:
        attempt.carry_on(draft)
    else:
        attempt.start_or_wait(draft)


def _accept(draft: Draft) -> None:
    standing = draft.observed.fairness
    reason, message = Reason.VALID, "namespace, nodes and claims allow the job to run"
    if standing is not None and standing.admission is Admission.ADMITTED and standing.message:
        reason, message = Reason.GUARANTEE_NOT_RAISED, standing.message
    draft.conditions.set(ConditionType.ACCEPTED, "True", reason, message)


def _wait_for(draft: Draft, obstacle: Obstacle) -> None:
    if obstacle.condition is not ConditionType.ACCEPTED:
        draft.conditions.set(ConditionType.ACCEPTED, "True", Reason.VALID, "namespace and claims allow the job to run")
    draft.conditions.set(obstacle.condition, "False", obstacle.reason, obstacle.message)
    if obstacle.terminal:
        attempt.fail_job(draft, obstacle.reason, obstacle.message)
        return
    draft.conditions.set(ConditionType.MOVERS_READY, "False", Reason.MOVERS_STOPPED, "no mover runs while the job waits")
    draft.kstatus(reconciling=not obstacle.needs_person, stalled=obstacle.needs_person, reason=obstacle.reason, message=obstacle.message)
    _stop_uncounted(draft)
    draft.wake_after(draft.settings.recheck_interval)


def _stop_uncounted(draft: Draft) -> None:
    """Stops the attempt under way without counting it as failed."""
    if attempt.is_under_way(draft):
        draft.change(attempts=attempt.present(draft), attempt_start_time=None)
    draft.delete_live_movers()
    if any(is_live(pod) for pod in draft.movers()):
        draft.wake_after(draft.settings.poll_interval)
