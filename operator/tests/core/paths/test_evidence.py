"""What a pass over a job shows of its path: who probes, what was measured, and what must not pass for a measurement."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from job_builders import (
    ENDPOINT,
    NOW,
    SETTINGS,
    make_attached_job,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    receiver,
    seconds,
    sender,
)

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import BandwidthStatus, EndpointsStatus, EndpointStatus, EngineChoice, ProtocolInForce
from fairlead.core.observed import Observed, PodPhase, Role
from fairlead.core.paths.evidence import NEWS, evidence_of
from fairlead.core.paths.merge import merge
from fairlead.core.paths.model import EngineResult, KnownBackground, KnownPath, Lease, Measurement, PathEnds, PathProbe
from fairlead.core.plan import CreatePod, Plan
from fairlead.core.reports import DecisionReport, MoverEndpoint, OutcomeReport, PathReport, Reports, SwitchReport

CLASSES = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
SENDS = MoverEndpoint("data0", "198.18.0.1", 0)
START = Plan(creates=(CreatePod(Role.SENDER, 1, "dtn-a", 24004, ENDPOINT),))
BULK = make_verdict(bytes_transferred=10**9, bytes_total=10**9, bulk_seconds=40.0)


def _decision(**fields: Any) -> DecisionReport:
    known: dict[str, Any] = {
        "protocol": "TCP",
        "congestion_control": "bbr",
        "streams": 4,
        "abstained": False,
        "reason": "Classified",
        "message": "",
        "decided_at": NOW,
        "background": "B1-C0",
        "background_probability": 0.9,
        "confidence": 0.94,
        "model": "background-1.0.0",
        "probabilities": {name: 0.9 if name == "B1-C0" else 0.02 for name in CLASSES},
        "any_bbr": 0.94,
    }
    return DecisionReport(**{**known, **fields})


SWITCH = SwitchReport(NOW, "cubic", "bbr", "BBR came")


def _background() -> KnownBackground:
    probabilities = {name: 0.9 if name == "B1-C0" else 0.02 for name in CLASSES}
    return KnownBackground(
        "B1-C0", 0.9, probabilities, 0.94, 0.94, abstained=False, model="background-1.0.0", measured_at=NOW - seconds(60)
    )


def _reports(decision: DecisionReport | None = None, **fields: Any) -> Reports:
    path = PathReport(0.0602, 0.06, 0.001) if decision else None
    return replace(Reports(receiver_endpoint=ENDPOINT, sender_endpoint=SENDS, path=path, decision=decision), **fields)


def _measured(observed: Observed) -> Measurement:
    evidence = evidence_of(observed, Plan(), NOW)
    assert evidence is not None
    assert evidence.measurement is not None
    return evidence.measurement


def test_a_sender_about_to_start_holds_the_path_from_that_moment() -> None:
    evidence = evidence_of(observe(make_job(), receiver(), reports=make_reports()), START, NOW)
    assert evidence is not None
    assert evidence.ends == PathEnds("dtn-a", None, "dtn-b", "data0")
    assert (evidence.live, evidence.flowing) == (True, False)
    assert evidence.lease == Lease(evidence.job, 1, NOW + SETTINGS.probe_lease)


def test_a_sender_that_is_told_the_path_holds_nothing() -> None:
    told = Plan(creates=(replace(START.creates[0], path=KnownPath(), probe=False),))
    for observed, plan in ((observe(make_job(), receiver()), told), (observe(make_job(), receiver(), sender(knows_path=True)), Plan())):
        evidence = evidence_of(observed, plan, NOW)
        assert evidence is not None
        assert (evidence.live, evidence.lease) == (True, None)


@pytest.mark.parametrize(
    ("pod", "held"),
    [
        (sender(), True),
        (sender(phase=PodPhase.PENDING, ready=False), True),
        (sender(phase=PodPhase.FAILED), False),
        (sender(deleting=True), False),
        (sender(verdict=make_verdict("Failed", "PeerLost")), False),
    ],
    ids=["runs", "is on its way", "has died", "is being deleted", "has given its verdict"],
)
def test_a_lease_ends_with_its_pod(pod: Any, held: bool) -> None:
    evidence = evidence_of(observe(make_job(), receiver(), pod), Plan(), NOW)
    assert (evidence is not None and evidence.lease is not None) is held


def test_a_lease_ends_some_time_after_the_pods_creation_even_if_nobody_says_that_it_is_dead() -> None:
    evidence = evidence_of(observe(make_job(), receiver(), sender(created_at=NOW - seconds(50))), Plan(), NOW)
    assert evidence is not None
    assert evidence.lease is not None
    assert evidence.lease.expires_at == NOW + seconds(10)


@pytest.mark.parametrize(
    ("ends", "live"),
    [
        ((receiver(), sender(verdict=make_verdict())), True),
        ((receiver(verdict=BULK, ended_at=NOW), replace(sender(), exit_code=0)), True),
        ((receiver(verdict=BULK, ended_at=NOW), sender(verdict=make_verdict())), False),
        ((receiver(verdict=BULK, ended_at=NOW), sender(deleting=True)), False),
    ],
    ids=["the receiver has not spoken", "the sidecar has not ended", "both have ended", "the sender is taken away"],
)
def test_there_may_be_more_to_hear_until_both_pods_have_ended(ends: Any, live: bool) -> None:
    evidence = evidence_of(observe(make_job(), *ends, reports=_reports(_decision())), Plan(), NOW)
    assert evidence is not None
    assert (evidence.live, evidence.lease) == (live, None)


def test_a_decision_ends_the_lease_and_is_news() -> None:
    evidence = evidence_of(observe(make_job(), receiver(), sender(), reports=_reports(_decision())), Plan(), NOW)
    assert evidence is not None
    assert (evidence.ends.source_interface, evidence.flowing, evidence.lease) == ("data0", True, None)
    measured = evidence.measurement
    assert measured is not None
    assert measured.probe is not None
    assert measured.background is not None
    assert (measured.probe.rtt_minimum_seconds, measured.background.class_name, measured.transfer) == (0.06, "B1-C0", None)


def test_a_sender_that_transfers_without_any_decision_flows_and_holds_no_lease() -> None:
    silent = replace(make_reports(), sender=make_progress(10))
    evidence = evidence_of(observe(make_job(), receiver(), sender(), reports=silent), Plan(), NOW)
    assert evidence is not None
    assert (evidence.flowing, evidence.lease) == (True, None)


def test_what_an_earlier_transfer_measured_is_not_measured_again() -> None:
    told = observe(make_job(), receiver(), sender(knows_path=True), reports=_reports(_decision(reason="Known", recalled=True)))
    evidence = evidence_of(told, Plan(), NOW)
    assert evidence is not None
    assert evidence.measurement is None


def test_a_look_in_mid_transfer_tells_the_background_and_not_the_idle_rtt() -> None:
    measured = _measured(observe(make_job(), receiver(), sender(), reports=_reports(_decision(switches=(SWITCH,)))))
    assert measured.probe is None
    assert measured.background is not None


@pytest.mark.parametrize(
    ("whole", "knows_path", "switched", "counts"),
    [
        (True, False, False, True),
        (True, True, False, True),
        (True, True, True, True),
        (False, True, False, False),
        (False, False, False, False),
        (None, True, False, False),
        (None, False, False, True),
    ],
    ids=[
        "probed",
        "told of a path that had changed, and probed",
        "looked at it again in quiet",
        "a glance",
        "what the sockets saw after a restart",
        "an earlier advisor that was told",
        "an earlier advisor",
    ],
)
def test_an_rtt_counts_when_the_path_was_sampled_at_length(whole: bool | None, knows_path: bool, switched: bool, counts: bool) -> None:
    reports = _reports(_decision(switches=(SWITCH,) if switched else ()), path=PathReport(0.1202, 0.12, 0.0, whole=whole))
    evidence = evidence_of(observe(make_job(), receiver(), sender(knows_path=knows_path), reports=reports), Plan(), NOW)
    assert evidence is not None and evidence.measurement is not None
    probe = evidence.measurement.probe
    assert (probe.rtt_minimum_seconds if probe else None) == (0.12 if counts else None)


def test_what_was_measured_last_of_a_path_that_changed_wins_as_a_whole() -> None:
    before = merge(NetworkPathStatus(), Measurement("earlier", 1, PathProbe(NOW - seconds(60), 0.0602, 0.06, 0.0), _background()))
    reports = _reports(_decision(background="C1-C1", probabilities={"C1-C1": 1.0}), path=PathReport(0.0302, 0.03, 0.0, whole=True))
    after = merge(before, _measured(observe(make_job(), receiver(), sender(knows_path=True), reports=reports)))
    assert after.background is not None
    assert (after.rtt, after.rtt_minimum, after.background.class_) == ("30.200ms", "30.000ms", "C1-C1")
    assert after.last_measured_time == after.background.measured_time == NOW


def test_a_users_choice_still_tells_what_was_seen() -> None:
    measured = _measured(observe(make_job(), receiver(), sender(), reports=_reports(_decision(reason="UserChoice"))))
    assert measured.background is not None


def test_without_a_model_only_the_rtt_is_told() -> None:
    measured = _measured(observe(make_job(), receiver(), sender(), reports=replace(make_reports(decided=True), sender_endpoint=SENDS)))
    assert (measured.probe is not None, measured.background) == (True, None)


def test_a_success_is_a_point_of_the_profile_with_what_the_advisor_settled_on() -> None:
    reports = _reports(_decision(), outcome=OutcomeReport("cubic", 9, 1.2e-6))
    point = _measured(observe(make_job(), receiver(verdict=BULK, ended_at=NOW), sender(), reports=reports)).transfer
    assert point is not None
    assert (point.rate_bps, point.congestion_control, point.streams, point.stream_coefficient) == (2e8, "cubic", 9, 1.2e-6)


def test_what_others_left_to_a_scavenger_tells_nothing_of_the_path() -> None:
    reports = _reports(_decision(), outcome=OutcomeReport("ledbat++", 1, None))
    job = make_job(transport={"trafficClass": "Scavenger"})
    assert _measured(observe(job, receiver(verdict=BULK, ended_at=NOW), sender(), reports=reports)).transfer is None


@pytest.mark.parametrize(
    ("verdict", "allocated", "counts"),
    [
        (BULK, None, True),
        (BULK, "1G", True),
        (BULK, "200M", False),
        (BULK, "220M", False),
        (replace(BULK, bulk_seconds=2.0), None, False),
        (replace(BULK, verdict="Failed", reason="PeerLost"), None, False),
        (replace(BULK, job="another"), None, False),
        (replace(BULK, bytes_resumed=10**9), None, False),
    ],
    ids=["free", "a wide cap", "held by its cap", "nearly held", "too short", "failed", "of another job", "all was there"],
)
def test_only_what_the_path_alone_held_back_tells_what_it_carries(verdict: Any, allocated: str | None, counts: bool) -> None:
    status = TransferJobStatus(bandwidth=BandwidthStatus(allocated=allocated))
    observed = observe(make_job(status=status), receiver(verdict=verdict, ended_at=NOW), sender(), reports=_reports(_decision()))
    assert (_measured(observed).transfer is not None) is counts


@pytest.mark.parametrize(
    ("ratios", "counts"),
    [
        ({}, True),
        ({"cap_limited_ratio": 0.1}, True),
        ({"cap_limited_ratio": 0.11}, False),
        ({"source_limited_ratio": 0.5}, True),
        ({"source_limited_ratio": 0.51}, False),
        ({"receive_window_limited_ratio": 0.51}, False),
        ({"source_limited_ratio": 0.3, "receive_window_limited_ratio": 0.3}, False),
    ],
    ids=["free", "hardly at its cap", "at an earlier cap", "waited half", "a slow source", "a slow receiver", "slow at both ends"],
)
def test_what_a_cap_or_a_disk_held_back_while_it_ran_tells_nothing_of_the_path(ratios: dict[str, float], counts: bool) -> None:
    reports = _reports(_decision(), outcome=OutcomeReport("cubic", 9, 1.2e-6, **ratios))
    observed = observe(make_job(), receiver(verdict=BULK, ended_at=NOW), sender(), reports=reports)
    assert (_measured(observed).transfer is not None) is counts


def test_a_node_with_a_wrong_clock_does_not_make_its_measurement_the_newest_for_ever() -> None:
    decision = _decision(decided_at=NOW + timedelta(days=365))
    measured = _measured(observe(make_job(), receiver(), sender(created_at=NOW - seconds(20)), reports=_reports(decision)))
    assert measured.probe is not None
    assert measured.probe.at == NOW - seconds(20)


def test_old_news_are_no_news() -> None:
    long_ago = NOW - NEWS - seconds(1)
    ended = sender(verdict=make_verdict(), created_at=long_ago)
    assert evidence_of(observe(make_job(), ended, reports=_reports(_decision(decided_at=long_ago))), Plan(), NOW) is None


@pytest.mark.parametrize(
    "job",
    [
        make_job(managedBy="example.com/other"),
        make_job(source={"volume": {"persistentVolumeClaim": {"claimName": "raw"}}}),
    ],
    ids=["another controller's", "its node is not known"],
)
def test_a_job_of_which_no_path_can_be_told_has_none(job: Any) -> None:
    assert evidence_of(observe(job, receiver(), sender(node=None), reports=_reports(_decision())), Plan(), NOW) is None


def test_within_one_node_there_is_no_path() -> None:
    assert evidence_of(observe(make_job(), receiver(), sender(node="dtn-b"), reports=_reports(_decision())), Plan(), NOW) is None


def test_pods_with_interfaces_of_their_own_are_on_no_path_between_interfaces() -> None:
    for job in (make_job(network="Pod"), make_attached_job()):
        assert evidence_of(observe(job, receiver(), sender(), reports=_reports(_decision())), Plan(), NOW) is None
    assert evidence_of(observe(make_job(), receiver(), sender(), reports=_reports(_decision())), Plan(), NOW) is not None


ENDS = EndpointsStatus(source=EndpointStatus(node="dtn-a", interface="data0"), destination=EndpointStatus(node="dtn-b", interface="data0"))


def _said(protocol: ProtocolInForce = "TCP", **fields: Any) -> Any:
    counted = {"retransmitted_bytes": 10**6, "bytes_resent": 10**6, "cpu_seconds": 4.0, **fields}
    return make_verdict(protocol=protocol, **counted)


def _of_engine(
    said: Any, arrived: Any = BULK, *, status: TransferJobStatus | None = None, outcome: OutcomeReport | None = None, **transport: Any
) -> EngineResult | None:
    known = (status or TransferJobStatus()).model_copy(update={"endpoints": ENDS})
    job = make_job(transport=transport, status=known)
    ends = receiver(verdict=arrived, ended_at=NOW), sender(verdict=said, ended_at=NOW)
    evidence = evidence_of(observe(job, *ends, reports=Reports(outcome=outcome)), Plan(), NOW)
    return evidence.measurement.engine if evidence is not None and evidence.measurement is not None else None


def test_a_success_tells_what_its_protocol_reached_and_cost_also_without_an_advisor() -> None:
    assert _of_engine(_said("QUIC"), protocol="QUIC") == EngineResult(NOW, "QUIC", 2e8, False, 0.002, 4.0)
    assert _of_engine(_said()) == EngineResult(NOW, "TCP", 2e8, False, 0.002, 4.0)
    chosen = TransferJobStatus(engine_choice=EngineChoice(protocol="QUIC"))
    assert _of_engine(_said("QUIC"), status=chosen) == EngineResult(NOW, "QUIC", 2e8, False, 0.002, 4.0)


def test_what_an_earlier_mover_does_not_tell_is_not_known() -> None:
    assert _of_engine(_said(retransmitted_bytes=None, cpu_seconds=None)) == EngineResult(NOW, "TCP", 2e8)


@pytest.mark.parametrize(
    ("allocated", "ratio", "at_cap"), [(None, 0.0, False), ("1G", 0.0, False), ("220M", 0.0, True), ("1G", 0.11, True)]
)
def test_what_its_cap_held_back_is_marked(allocated: str | None, ratio: float, at_cap: bool) -> None:
    status = TransferJobStatus(bandwidth=BandwidthStatus(allocated=allocated))
    found = _of_engine(_said(), status=status, outcome=OutcomeReport("cubic", 8, cap_limited_ratio=ratio))
    assert found is not None
    assert found.at_cap is at_cap


@pytest.mark.parametrize(
    ("said", "arrived", "transport"),
    [
        (_said(), replace(BULK, bulk_seconds=4.9), {}),
        (_said(), replace(BULK, bytes_transferred=10**7 - 1), {}),
        (_said(), replace(BULK, verdict="Failed", reason="PeerLost"), {}),
        (_said(job="another"), BULK, {}),
        (_said("TCP"), BULK, {"protocol": "QUIC"}),
        (_said(), BULK, {"streams": {"max": 3}}),
        (_said(), BULK, {"congestionControl": "vegas"}),
        (_said("UDT"), BULK, {"protocol": "UDT", "congestionControl": "blast"}),
        (_said("UDT"), BULK, {"protocol": "UDT", "congestionControl": "fixed"}),
        (_said("QUIC"), BULK, {"trafficClass": "Scavenger"}),
    ],
    ids=[
        "too short",
        "too little",
        "failed",
        "another job's word",
        "over another protocol in the end",
        "held to few streams",
        "a control of the user's",
        "a policy that does not yield",
        "a set rate",
        "a scavenger",
    ],
)
def test_a_transfer_that_shows_too_little_of_its_protocol_is_left_out(said: Any, arrived: Any, transport: dict[str, Any]) -> None:
    assert _of_engine(said, arrived, **transport) is None


def test_a_disk_tells_nothing_of_a_protocol() -> None:
    assert _of_engine(_said(), outcome=OutcomeReport("cubic", 8, source_limited_ratio=0.6)) is None


def test_what_goes_over_several_interfaces_or_one_that_is_not_known_tells_nothing_of_a_path() -> None:
    ends = receiver(verdict=BULK, ended_at=NOW), sender(verdict=_said(), ended_at=NOW)
    assert evidence_of(observe(make_job(), *ends), Plan(), NOW) is None


@pytest.mark.parametrize(
    "transport", [{"protocol": "QUIC"}, {"protocol": "UDT", "congestionControl": "fixed"}, {"trafficClass": "Scavenger"}]
)
def test_udp_that_does_not_get_through_is_told_from_when_it_was_seen_and_stays_so(transport: dict[str, Any]) -> None:
    kept = Condition(type="ProtocolKept", status="False", reason="ProtocolReplaced", last_transition_time=NOW - seconds(30), message="")
    status = TransferJobStatus(attempts=1, endpoints=ENDS, conditions=(kept,))
    job = make_job(transport=transport, status=status)
    created = NOW - timedelta(hours=3)
    for ends in ((receiver(), sender(created_at=created)), (receiver(verdict=BULK), sender(created_at=created, verdict=_said("TCP")))):
        found = _measured(observe(job, *ends)).engine
        assert found is not None
        assert (found.protocol, found.goodput_bps, found.at) == (transport.get("protocol", "QUIC"), None, NOW - seconds(30))


def test_what_an_attempt_before_had_to_replace_says_nothing_of_the_next_one() -> None:
    kept = Condition(type="ProtocolKept", status="False", reason="ProtocolReplaced", last_transition_time=NOW, message="")
    job = make_job(transport={"protocol": "QUIC"}, status=TransferJobStatus(attempts=1, endpoints=ENDS, conditions=(kept,)))
    evidence = evidence_of(observe(job, receiver(attempt=2), sender(attempt=2)), Plan(), NOW)
    assert evidence is not None
    assert evidence.measurement is None


def test_tcp_is_blocked_by_nothing_whatever_its_sender_says() -> None:
    kept = Condition(type="ProtocolKept", status="False", reason="ProtocolReplaced", last_transition_time=NOW, message="")
    job = make_job(status=TransferJobStatus(attempts=1, endpoints=ENDS, conditions=(kept,)))
    evidence = evidence_of(observe(job, receiver(), sender()), Plan(), NOW)
    assert evidence is not None
    assert evidence.measurement is None


def test_a_scavenger_that_ends_for_want_of_udp_tells_so() -> None:
    job = make_job(transport={"trafficClass": "Scavenger"}, status=TransferJobStatus(attempts=1, endpoints=ENDS))
    ended = sender(verdict=make_verdict("Failed", "ProtocolUnavailable", retry=True), ended_at=NOW)
    assert _measured(observe(job, receiver(), ended)).engine == EngineResult(NOW, "QUIC", None)
