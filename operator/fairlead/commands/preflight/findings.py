"""What was found, in the order of a job's life: the API server's word, what keeps the job from running, the movers' checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.shared.resource import ApiModel
from fairlead.api.transferjob import TransferJob
from fairlead.commands.sayings import saying_of
from fairlead.core.lifecycle.preflight import PAGE

_WAITS = (ConditionType.ACCEPTED, ConditionType.SCHEDULED, ConditionType.MOVERS_READY)


class PreflightFinding(ApiModel):
    """One check."""

    end: Literal["job", "source", "destination"]
    check: str
    result: Literal["Passed", "Warning", "Failed"]
    reason: str | None = None
    message: str = ""
    remedy: str | None = None
    """What to do, of a warning or a failure."""
    page: str | None = None


class PreflightFindings(ApiModel):
    """All checks of one job."""

    version: int = 1
    namespace: str
    name: str
    passed: bool
    checks: tuple[PreflightFinding, ...]


def refused(message: str) -> PreflightFinding:
    """The API server does not take the job."""
    return PreflightFinding(end="job", check="Manifest", result="Failed", reason="Refused", message=message, remedy="Correct the file.")


def findings_of(namespace: str, name: str, found: Iterable[PreflightFinding]) -> PreflightFindings:
    """Passed if nothing failed."""
    checks = tuple(found)
    return PreflightFindings(namespace=namespace, name=name, passed=all(each.result != "Failed" for each in checks), checks=checks)


def of_job(job: TransferJob) -> list[PreflightFinding]:
    """What the checked job's status tells, which has ended or for which nobody waits any longer."""
    status = job.status
    found = [PreflightFinding(end="job", check="Manifest", result="Passed", message="the API server takes the job")]
    accepted = status.condition(ConditionType.ACCEPTED)
    if accepted is not None and accepted.status == "True":
        found.append(PreflightFinding(end="job", check="Accepted", result="Passed", message=accepted.message))
    found += [_finding(each.end, each.check, each.result, each.reason, each.message) for each in status.preflight or ()]
    if status.is_true(ConditionType.SUCCEEDED) or any(each.result == "Failed" for each in found):
        return found
    failed = status.condition(ConditionType.FAILED)
    if failed is not None and failed.status == "True" and failed.reason != Reason.DEADLINE_EXCEEDED:
        blocked = next((kind for kind in _WAITS[:2] if (known := status.condition(kind)) and known.reason == failed.reason), None)
        return [*found, _finding("job", blocked or "Movers", "Failed", failed.reason, failed.message)]
    # It has not come to its checks in time: what it waits for is what is wrong.
    for kind in _WAITS:
        condition = status.condition(kind)
        if condition is not None and condition.status == "False" and condition.reason != Reason.MOVERS_STOPPED:
            return [*found, _finding("job", kind, "Failed", condition.reason, condition.message)]
    if status.last_failure is not None:
        return [*found, _finding("job", "Movers", "Failed", status.last_failure.reason, status.last_failure.message)]
    message = "no answer came in time: give a longer --timeout, or ask an administrator whether Fairlead's operator runs"
    return [*found, _finding("job", "Movers", "Failed", Reason.DEADLINE_EXCEEDED, message)]


def _finding(
    end: Literal["job", "source", "destination"],
    check: str,
    result: Literal["Passed", "Warning", "Failed"],
    reason: str | None,
    message: str,
) -> PreflightFinding:
    if result == "Passed" or reason is None:
        return PreflightFinding(end=end, check=check, result=result, reason=reason, message=message)
    page = PAGE if end == "job" else f"{PAGE}#{reason.lower()}"
    remedy = saying_of(reason).remedy or None
    return PreflightFinding(end=end, check=check, result=result, reason=reason, message=message, remedy=remedy, page=page)
