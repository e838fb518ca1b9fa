"""What carries the data shows on the job, and so does that it is not what the job names."""

from __future__ import annotations

from dataclasses import replace

from job_builders import NOW, make_job, make_progress, make_reports, observe, receiver, sender, with_plan_applied

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.lifecycle import decide
from fairlead.core.observed import Observed
from fairlead.core.plan import Plan
from fairlead.core.reports import PreflightCheck

BLOCKED = PreflightCheck("Protocol", "Warning", "ProtocolUnavailable", "no answer of QUIC: let UDP through; the transfer goes on over TCP")


def running(protocol: str) -> Observed:
    first = observe(make_job(transport={"protocol": protocol}), receiver(), sender())
    return with_plan_applied(first, decide(first, NOW))


def told(observed: Observed, in_force: ProtocolInForce | None, *warnings: PreflightCheck) -> tuple[Observed, Plan]:
    """The job after a pass in which its sender tells what carries the data."""
    progress = replace(make_progress(100), protocol=in_force, preflight_warnings=warnings)
    reports = replace(make_reports(make_progress(100), decided=True), sender=progress)
    observed = replace(observed, pods=(receiver(), sender()), reports=reports)
    plan = decide(observed, NOW)
    return with_plan_applied(observed, plan), plan


def events(plan: Plan) -> list[tuple[str, bool]]:
    return [(event.reason, event.warning) for event in plan.events if event.reason == "ProtocolReplaced"]


def test_the_protocol_in_force_is_the_movers_word_also_where_the_advisor_says_another() -> None:
    observed, _ = told(running("QUIC"), None)
    assert observed.job.status.protocol is None
    observed, plan = told(observed, "QUIC")
    status = observed.job.status
    assert status.protocol == "QUIC"
    assert status.decision is not None
    assert status.decision.protocol == "QUIC"
    assert status.condition("ProtocolKept") is None
    assert events(plan) == []


def test_a_protocol_that_does_not_get_through_is_told_once_with_the_movers_words() -> None:
    observed, _ = told(running("QUIC"), "QUIC")
    observed, plan = told(observed, "TCP", BLOCKED)
    kept = observed.job.status.condition("ProtocolKept")
    assert kept is not None
    assert (kept.status, kept.reason, kept.message) == ("False", "ProtocolReplaced", BLOCKED.message)
    assert observed.job.status.protocol == "TCP"
    assert events(plan) == [("ProtocolReplaced", True)]
    observed, plan = told(observed, "TCP", BLOCKED)
    assert events(plan) == []
    observed, plan = told(observed, "QUIC")
    back = observed.job.status.condition("ProtocolKept")
    assert back is not None
    assert (back.status, back.reason) == ("True", "ProtocolInUse")


def test_a_job_that_leaves_the_protocol_open_or_names_tcp_says_nothing_of_it() -> None:
    for protocol in ("Auto", "TCP"):
        observed, plan = told(running(protocol), "TCP")
        assert observed.job.status.protocol == "TCP"
        assert observed.job.status.condition("ProtocolKept") is None
        assert events(plan) == []


def test_a_scavenger_that_leaves_the_protocol_open_names_quic_by_that() -> None:
    first = observe(make_job(transport={"trafficClass": "Scavenger"}), receiver(), sender())
    observed, _ = told(with_plan_applied(first, decide(first, NOW)), "QUIC")
    assert observed.job.status.condition("ProtocolKept") is None
    observed, plan = told(observed, "TCP", BLOCKED)
    kept = observed.job.status.condition("ProtocolKept")
    assert kept is not None
    assert (kept.status, kept.reason) == ("False", "ProtocolReplaced")
    assert events(plan) == [("ProtocolReplaced", True)]
