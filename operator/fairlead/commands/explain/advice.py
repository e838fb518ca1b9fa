"""What to do next about a job, concluded from what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.commands.explain.account import Explanation

_UNNOTICED = timedelta(seconds=30)
"""An operator that runs takes up a new job sooner."""
_AT_CAP = 0.9
_RESUME = '{"spec":{"suspend":false}}'
_RAISE_LIMIT = '{"spec":{"bandwidth":{"limit":"RATE"}}}'
_MEANINGS: dict[str, str] = {each.value: each.meaning for each in (*Reason, *MoverReason)}

Advice = Callable[[Explanation, datetime], str | None]


def next_steps(job: Explanation, now: datetime) -> tuple[str, ...]:
    """What the user can do, the most urgent first; what happens by itself is said too. Never empty."""
    if (decisive := next(_said(_DECISIVE, job, now), None)) is not None:
        return (decisive,)
    steps = tuple(dict.fromkeys(_said(_IN_THE_WAY, job, now)))
    return steps or (while_it_runs(job),)


def meaning_of(reason: str) -> str:
    """What a reason of a condition or a mover means; empty for an unknown one."""
    return _MEANINGS.get(reason, "")


def _said(advices: tuple[Advice, ...], job: Explanation, now: datetime) -> Iterator[str]:
    for advice in advices:
        if (said := advice(job, now)) is not None:
            yield said


def _of_another_controller(job: Explanation, now: datetime) -> str | None:
    if job.managed_by == CONTROLLER:
        return None
    return f"The controller {job.managed_by} serves this job (spec.managedBy), and Fairlead leaves it alone: ask there."


def _deleting(job: Explanation, now: datetime) -> str | None:
    if not job.deleting:
        return None
    return "Wait: the job is being deleted, its movers are stopped and its partial files removed."


def _unnoticed(job: Explanation, now: datetime) -> str | None:
    if job.conditions:
        return None
    if now - job.created_time < _UNNOTICED:
        return "Wait some seconds: the operator has not taken up the job yet."
    return "Ask an administrator whether Fairlead's operator runs: it has not taken up the job."


def _succeeded(job: Explanation, now: datetime) -> str | None:
    succeeded = job.condition(ConditionType.SUCCEEDED)
    if succeeded is None or succeeded.status != "True":
        return None
    if succeeded.reason == MoverReason.PREFLIGHT_PASSED:
        return "Create the job without spec.preflightOnly: every check passed, and nothing was moved."
    return "Nothing: every byte arrived and was verified."


def _failed(job: Explanation, now: datetime) -> str | None:
    failed = job.condition(ConditionType.FAILED)
    if failed is None or failed.status != "True":
        return None
    last = f" {meaning_of(job.last_failure.reason)}" if failed.reason == Reason.BACKOFF_LIMIT_EXCEEDED and job.last_failure else ""
    return f"Remove the cause and create the job again: {meaning_of(failed.reason)}{last}".rstrip(": ")


def _suspended(job: Explanation, now: datetime) -> str | None:
    if not job.is_true(ConditionType.SUSPENDED):
        return None
    return f"Resume it, what has arrived is kept: {_patch(job, _RESUME)}"


_DECISIVE: tuple[Advice, ...] = (_of_another_controller, _deleting, _unnoticed, _succeeded, _failed, _suspended)


def _not_answered(job: Explanation, now: datetime) -> str | None:
    return None if job.answers_spec else "Look again in some seconds: the operator has not answered the last change of the spec yet."


def _blocked_by(kind: ConditionType, blocking: str) -> Advice:
    def advice(job: Explanation, now: datetime) -> str | None:
        condition = job.condition(kind)
        if condition is None or condition.status != blocking:
            return None
        return f"{kind} is {condition.status} ({condition.reason}): {meaning_of(condition.reason) or condition.message}"

    return advice


def _backing_off(job: Explanation, now: datetime) -> str | None:
    ready = job.condition(ConditionType.MOVERS_READY)
    if ready is None or ready.reason != Reason.BACKING_OFF or job.last_failure is None:
        return None
    last = job.last_failure
    return (
        f"Wait, or remove the cause: attempt {last.attempt} failed with {last.reason}, {job.failures} failures of at most"
        f" {job.backoff_limit}, and the next attempt starts by itself. {meaning_of(last.reason)}"
    ).rstrip()


def _not_ready(job: Explanation, now: datetime) -> str | None:
    ready = job.condition(ConditionType.MOVERS_READY)
    if ready is None or ready.status != "False" or ready.reason in {Reason.BACKING_OFF, Reason.MOVERS_STOPPED}:
        return None
    # While nothing has a node, or a link, the movers cannot be ready: that is said already.
    scheduled = job.condition(ConditionType.SCHEDULED)
    if scheduled is not None and scheduled.status == "False":
        return None
    return f"MoversReady is False ({ready.reason}): {meaning_of(ready.reason)}"


def _advisor_silent(job: Explanation, now: datetime) -> str | None:
    probed = job.condition(ConditionType.PATH_PROBED)
    if probed is None or probed.reason != Reason.ADVISOR_SILENT:
        return None
    return (
        "Nothing has to be done for the data, which go on; an administrator finds the cause in the log of the sender's container advisor."
    )


_IN_THE_WAY: tuple[Advice, ...] = (
    _not_answered,
    _blocked_by(ConditionType.STALLED, "True"),
    _blocked_by(ConditionType.ACCEPTED, "False"),
    _blocked_by(ConditionType.SCHEDULED, "False"),
    _backing_off,
    _not_ready,
    _advisor_silent,
    _blocked_by(ConditionType.CAP_ENFORCED, "False"),
)


def while_it_runs(job: Explanation) -> str:
    """What decides the rate of a job that nothing is wrong with, and what would raise it."""
    bandwidth = job.bandwidth
    if job.phase != "Transferring":
        return "Wait: the job goes on by itself."
    if bandwidth.cap is None:
        return "Nothing caps the job: disks, the path and the traffic beside it decide its rate."
    if bandwidth.part_of_cap is not None and float(bandwidth.part_of_cap) < _AT_CAP:
        return "The cap is not what holds the job back: look at the disks of both ends, and at RTT, loss and background of the path."
    match bandwidth.bound_by:
        case "JobLimit":
            return f"The job's own limit holds it. To raise it: {_patch(job, _RAISE_LIMIT)}"
        case "TenantLimit":
            return (
                f"The limit of tenant {bandwidth.tenant_name} on link {bandwidth.bottleneck} holds it: let fewer of its jobs run at once,"
                " or ask an administrator for a higher limit in the FairnessPolicy."
            )
        case "Link":
            return (
                f"Link {bandwidth.bottleneck} is shared, and the job has its fair part. A higher spec.bandwidth.weight takes from its"
                " tenant's other jobs alone; a larger part for the tenant is an administrator's to give."
            )
        case _:
            return "Wait: the job runs at its cap."


def _patch(job: Explanation, patch: str) -> str:
    return f"kubectl -n {job.namespace} patch tj {job.name} --type merge -p '{patch}'"
