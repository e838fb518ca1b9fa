"""A job that only checks: it starts at once, moves nothing, and ends with what was found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from job_builders import (
    NOW,
    make_failure,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    receiver,
    sender,
    with_plan_applied,
)

from fairlead.api.reasons import Reason
from fairlead.core.fairness.model import Admission, JobShare
from fairlead.core.fairness.participant import participant_of
from fairlead.core.lifecycle import decide
from fairlead.core.observed import ClaimFacts, MoverPod, NodeFacts, Observed, Role
from fairlead.core.paths.model import ProbeAssignment, Probing
from fairlead.core.reports import PreflightCheck

CHECK = PreflightCheck("Interface", "Passed", None, "data0 is up")
SLOW_CLOCK = PreflightCheck("Clocks", "Warning", "ClocksDiffer", "20 s behind")


def begun(*pods: MoverPod, **fields: Any) -> Observed:
    """The first attempt of a job that only checks, with these pods."""
    first = observe(make_job(preflightOnly=True), **fields)
    return replace(with_plan_applied(first, decide(first, NOW)), pods=pods)


def test_it_starts_without_a_share_and_without_what_only_data_needs() -> None:
    waits = JobShare(admission=Admission.WAITING, reason=Reason.WAITING_FOR_LINK, message="full")
    plan = decide(observe(make_job(preflightOnly=True), fairness=waits), NOW)
    assert [create.role for create in plan.creates] == [Role.RECEIVER]
    assert plan.finalizer is None, "there are no partial files to remove"
    assert not plan.asks_for_links
    assert participant_of(begun(receiver()), asks=False, now=NOW.timestamp()) is None


def test_the_sender_waits_for_no_other_jobs_probe() -> None:
    leased = begun(receiver(), reports=make_reports(), path=ProbeAssignment(probing=Probing.LEASED))
    assert [create.role for create in decide(leased, NOW).creates] == [Role.SENDER]


def test_it_succeeds_with_the_checks_of_both_ends() -> None:
    verdict = make_verdict(reason="PreflightPassed", checks=(CHECK,))
    plan = decide(begun(receiver(verdict=verdict, ended_at=NOW), sender(verdict=verdict)), NOW)
    assert plan.status is not None
    succeeded, passed = plan.status.condition("Succeeded"), plan.status.condition("PreflightPassed")
    assert succeeded is not None and passed is not None
    assert (succeeded.status, succeeded.reason, passed.reason) == ("True", "PreflightPassed", "ChecksPassed")
    assert "nothing was moved" in succeeded.message
    assert [(each.end, each.check) for each in plan.status.preflight or ()] == [("source", "Interface"), ("destination", "Interface")]
    assert plan.status.progress is None


def test_it_waits_a_moment_for_the_senders_checks() -> None:
    verdict = make_verdict(reason="PreflightPassed", checks=(CHECK,))
    ended = begun(receiver(verdict=verdict, ended_at=NOW), sender())
    waiting = decide(ended, NOW)
    assert waiting.status is not None and not waiting.status.finished
    assert waiting.requeue_after is not None and waiting.requeue_after <= timedelta(seconds=5)
    given_up = decide(ended, NOW + timedelta(seconds=5))
    assert given_up.status is not None and given_up.status.is_true("Succeeded")


@pytest.mark.parametrize("reason", ["PathMtuTooSmall", "PeerUnreachable"])
def test_a_failed_check_ends_it_at_once_with_its_reason_whether_a_retry_may_help_or_not(reason: str) -> None:
    failed = PreflightCheck("Path", "Failed", reason, "what was measured")
    verdict = replace(make_failure(reason, retry=reason == "PeerUnreachable"), checks=(CHECK, failed))
    plan = decide(begun(receiver(verdict=make_failure("PeerFailed", retry=True)), sender(verdict=verdict)), NOW)
    assert plan.status is not None
    ended, passed = plan.status.condition("Failed"), plan.status.condition("PreflightPassed")
    assert ended is not None and passed is not None
    assert (ended.status, ended.reason, passed.status, passed.reason) == ("True", reason, "False", reason)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"claims": {"raw": ClaimFacts(exists=False)}}, "ClaimNotFound"),
        ({"nodes": {"dtn-a": NodeFacts(exists=True, ready=False)}}, "NodeNotReady"),
        ({"nodes": {"dtn-a": NodeFacts(exists=False)}}, "NodeNotFound"),
    ],
)
def test_what_would_keep_the_job_waiting_is_told_at_once(facts: dict[str, Any], reason: str) -> None:
    plan = decide(observe(make_job(preflightOnly=True), **facts), NOW)
    assert plan.creates == ()
    assert plan.status is not None
    failed = plan.status.condition("Failed")
    assert failed is not None
    assert (failed.status, failed.reason) == ("True", reason)


def test_a_warning_of_a_running_job_is_an_event_once() -> None:
    first = observe(make_job())
    warned = replace(make_reports(), sender=replace(make_progress(0), preflight_warnings=(SLOW_CLOCK,)))
    under_way = replace(with_plan_applied(first, decide(first, NOW)), pods=(receiver(), sender()), reports=warned)
    plan = decide(under_way, NOW)
    assert [event.reason for event in plan.events if event.reason == "PreflightWarning"] == ["PreflightWarning"]
    again = decide(with_plan_applied(under_way, plan), NOW)
    assert not [event for event in again.events if event.reason == "PreflightWarning"]
