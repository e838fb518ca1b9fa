"""An attempt of a job that leaves the protocol open keeps to what was chosen as it began, at both ends, and the next one chooses anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from job_builders import (
    NOW,
    SETTINGS,
    make_failure,
    make_job,
    make_progress,
    make_reports,
    observe,
    receiver,
    seconds,
    sender,
    with_plan_applied,
)

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.dtn import TransferNode
from fairlead.core.fairness.model import Admission, JobShare
from fairlead.core.lifecycle import decide
from fairlead.core.observed import Observed, Role
from fairlead.core.paths.model import EngineEvidence, EngineResult
from fairlead.core.plan import Plan

TCP = EngineResult(NOW - seconds(60), "TCP", 2e8, cpu_seconds_per_gb=4.0)
QUIC = EngineResult(NOW - seconds(30), "QUIC", 8e8, cpu_seconds_per_gb=8.0)
UDT = replace(QUIC, protocol="UDT")
FASTER = EngineEvidence((TCP, QUIC), 0.06)


def starting(engines: EngineEvidence | None = FASTER, **fields: Any) -> Observed:
    return observe(make_job(**fields.pop("spec", {})), engines=engines, **fields)


def protocol_of(plan: Plan) -> ProtocolInForce:
    return next(action.protocol for action in plan.creates)


def with_receiver(observed: Observed, plan: Plan) -> Observed:
    """The next pass, with a receiver that is up; what was known of the path is not asked for again."""
    pods = (receiver(attempt=observed.latest_attempt + 1),)
    return replace(with_plan_applied(observed, plan), pods=pods, reports=make_reports(), engines=None)


def test_both_ends_of_an_attempt_have_the_protocol_that_was_chosen_as_it_began() -> None:
    first = starting()
    plan = decide(first, NOW)
    assert (protocol_of(plan), plan.creates[0].role) == ("QUIC", Role.RECEIVER)
    assert plan.status is not None
    assert plan.status.engine_choice is not None
    assert plan.status.engine_choice.protocol == "QUIC"
    second = with_receiver(first, plan)
    # What is learnt in the meantime is for the next attempt.
    for known in (None, EngineEvidence((TCP, QUIC, replace(QUIC, at=NOW, goodput_bps=None)))):
        later = decide(replace(second, engines=known), NOW)
        assert (protocol_of(later), later.creates[0].role) == ("QUIC", Role.SENDER)


def test_the_next_attempt_chooses_by_what_is_known_then() -> None:
    first = starting()
    begun = with_receiver(first, decide(first, NOW))
    ended = replace(
        begun, pods=(receiver(verdict=make_failure("Stalled", retry=True)), sender(verdict=make_failure("Stalled", retry=True)))
    )
    failed = replace(with_plan_applied(ended, decide(ended, NOW)), pods=())
    later = NOW + SETTINGS.backoff_most
    blocked = EngineEvidence((TCP, QUIC, EngineResult(NOW, "QUIC", None)), 0.06)
    again = decide(replace(failed, engines=blocked), later)
    assert again.status is not None
    assert again.status.engine_choice is not None
    assert (protocol_of(again), again.status.attempts) == ("TCP", 2)
    assert [each.verdict for each in again.status.engine_choice.weighed] == ["Chosen", "UdpBlocked", "UdpBlocked"]
    forgotten = decide(replace(failed, engines=EngineEvidence(())), later)
    assert forgotten.status is not None
    assert (protocol_of(forgotten), forgotten.status.engine_choice) == ("TCP", None)


@pytest.mark.parametrize("engines", [None, EngineEvidence(()), EngineEvidence((TCP,))], ids=["no path", "nothing", "TCP alone"])
def test_without_evidence_of_another_protocol_it_is_tcp_and_nothing_is_said(engines: EngineEvidence | None) -> None:
    plan = decide(starting(engines), NOW)
    assert plan.status is not None
    assert (protocol_of(plan), plan.status.engine_choice) == ("TCP", None)


@pytest.mark.parametrize(
    ("transport", "expected"),
    [({"protocol": "TCP"}, "TCP"), ({"protocol": "QUIC"}, "QUIC"), ({"protocol": "UDT"}, "UDT"), ({"trafficClass": "Scavenger"}, "QUIC")],
)
def test_what_a_job_names_is_used_at_both_ends(transport: dict[str, Any], expected: str) -> None:
    first = starting(None, spec={"transport": transport})
    plan = decide(first, NOW)
    assert protocol_of(plan) == protocol_of(decide(with_receiver(first, plan), NOW)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"transfer_nodes": {"dtn-a": TransferNode("dtn-a", cpus=1)}}, "QUIC"),
        ({"transfer_nodes": {"dtn-b": TransferNode("dtn-b", cpus=1)}, "settings": replace(SETTINGS, mover_cpus=0.5)}, "TCP"),
        ({"transfer_nodes": {"dtn-a": TransferNode("dtn-a", cpus=1)}, "settings": replace(SETTINGS, mover_cpus=0.5)}, "TCP"),
        ({"spec": {"transport": {"encryption": "None"}}}, "TCP"),
        ({"spec": {"bandwidth": {"limit": "200M"}}}, "TCP"),
    ],
    ids=["the sender's node suffices", "the limit of the container", "the less of both", "no encryption", "a cap that TCP reaches"],
)
def test_the_choice_goes_by_the_senders_processors_its_cap_and_the_jobs_other_wishes(fields: dict[str, Any], expected: str) -> None:
    assert protocol_of(decide(starting(**fields), NOW)) == expected


def test_udt_is_chosen_within_a_share_by_a_policy_alone() -> None:
    known, limited = EngineEvidence((TCP, UDT), 0.06), {"bandwidth": {"limit": "1G"}}
    assert protocol_of(decide(starting(known), NOW)) == "TCP"
    assert protocol_of(decide(starting(known, spec=limited), NOW)) == "TCP"
    share = JobShare(Admission.ADMITTED, cap_bps=10**9)
    assert protocol_of(decide(starting(known, fairness=share), NOW)) == "UDT"
    assert protocol_of(decide(starting(known, spec=limited, fairness=share), NOW)) == "UDT"


def test_a_sender_is_told_that_its_cap_is_a_share() -> None:
    for share in (None, JobShare(Admission.ADMITTED, cap_bps=10**9)):
        first = starting(fairness=share)
        (created,) = decide(with_receiver(first, decide(first, NOW)), NOW).creates
        assert (created.role, created.allocated) == (Role.SENDER, share is not None)


def test_a_choice_is_no_event_and_one_that_does_not_get_through_is_told_once() -> None:
    first = starting()
    plan = decide(first, NOW)
    assert [event.reason for event in plan.events] == []
    second = with_receiver(first, plan)
    runs = replace(with_plan_applied(second, decide(second, NOW)), pods=(receiver(), sender()))
    reports = replace(make_reports(make_progress(100), decided=True), sender=replace(make_progress(100), protocol="TCP"))
    cut = decide(replace(runs, reports=reports), NOW)
    assert [event.reason for event in cut.events if event.warning] == ["ProtocolReplaced"]
