"""What the checks before the data came to: the condition `PreflightPassed` and, of a job that only checks, the list of checks."""

from __future__ import annotations

from typing import Any, Literal

from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import MOST_CHECKS, PreflightCheckStatus
from fairlead.core.conditions import shorten
from fairlead.core.lifecycle.outcome import Judgement
from fairlead.core.observed import MoverPod
from fairlead.core.reports import PreflightCheck, Reports

PAGE = "docs/how-to/preflight.md"
"""The page with each reason and its remedy."""

_LONGEST_MESSAGE = 1024

_Found = tuple[Literal["source", "destination"], PreflightCheck]


def judge_preflight(
    status: TransferJobStatus, reports: Reports, sender: MoverPod | None, receiver: MoverPod | None
) -> dict[ConditionType, Judgement | None]:
    """The condition `PreflightPassed` from verdicts, or while the movers run from their reports; nothing where these say nothing new.

    The sender's checks pass after the receiver's, so its word is enough.
    """
    checks = _checks_of_verdicts(sender, receiver)
    failed = [found for found in checks if found[1].result == "Failed"]
    if failed:
        return {ConditionType.PREFLIGHT_PASSED: Judgement("False", *_told(failed))}
    running = reports.sender.preflight_warnings if reports.sender is not None else None
    succeeded = receiver is not None and receiver.verdict is not None and receiver.verdict.verdict == "Succeeded"
    if running is None and not (succeeded and (checks or not status.is_true(ConditionType.PREFLIGHT_PASSED))):
        # Nothing is known yet, or nothing beside what was known while the movers ran.
        return {}
    warnings = [found for found in checks if found[1].result == "Warning"]
    ended = {check.check for end, check in checks if end == "source"}
    warnings += [("source", check) for check in running or () if check.check not in ended]
    if not warnings:
        return {ConditionType.PREFLIGHT_PASSED: Judgement("True", Reason.CHECKS_PASSED, "every check before the data passed at both ends")}
    _, message = _told(warnings)
    return {ConditionType.PREFLIGHT_PASSED: Judgement("True", Reason.PASSED_WITH_WARNINGS, message)}


def checks_of(sender: MoverPod | None, receiver: MoverPod | None) -> dict[str, Any]:
    """What the status of a job that only checks shows: by its Python name, nothing while no mover has ended."""
    found = _checks_of_verdicts(sender, receiver)
    if not found:
        return {}
    checks = tuple(
        PreflightCheckStatus(
            end=end, check=each.check, result=each.result, reason=each.reason, message=shorten(each.message, _LONGEST_MESSAGE)
        )
        for end, each in found
    )
    return {"preflight": checks[:MOST_CHECKS]}


def _checks_of_verdicts(sender: MoverPod | None, receiver: MoverPod | None) -> list[_Found]:
    """The source's first, as a user reads a job."""
    found: list[_Found] = []
    if sender is not None and sender.verdict is not None:
        found += [("source", check) for check in sender.verdict.checks]
    if receiver is not None and receiver.verdict is not None:
        found += [("destination", check) for check in receiver.verdict.checks]
    return found


def _told(found: list[_Found]) -> tuple[str, str]:
    """The first one's reason, and all of them in words with the page that explains that."""
    first = found[0][1].reason or found[0][1].check
    message = "; ".join(f"{end}: {check.reason or check.check}: {check.message}" for end, check in found)
    return first, f"{shorten(message, _LONGEST_MESSAGE)} ({PAGE}#{first.lower()})"
