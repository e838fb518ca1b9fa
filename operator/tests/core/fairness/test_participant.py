"""How the fairness loop sees a job."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from job_builders import (
    NOW,
    make_attached_job,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    receiver,
    seconds,
    sender,
    with_plan_applied,
)

from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.spec import Bandwidth
from fairlead.api.transferjob.status import EndpointsStatus, EndpointStatus, FailureStatus
from fairlead.core.fairness.meter import CounterReading
from fairlead.core.fairness.model import Admission, AnnotatedCap, Contact, InterfaceCount, JobShare, JobStage, Participant
from fairlead.core.fairness.participant import participant_of
from fairlead.core.lifecycle import decide
from fairlead.core.observed import ClaimFacts, MoverPod, Observed, PodPhase
from fairlead.core.paths.model import End
from fairlead.core.reports import InterfaceTraffic, MoverEndpoint, Reports

AT = NOW.timestamp()


def seen(observed: Observed, *, asks: bool = False) -> Participant:
    job = participant_of(observed, asks=asks, now=AT)
    assert job is not None
    return job


UNDER_WAY = TransferJobStatus(attempts=1, attempt_start_time=NOW)


@pytest.mark.parametrize(
    ("job", "asks", "expected"),
    [
        (make_job(), False, None),
        (make_job(), True, JobStage.ASKING),
        (make_job(suspend=True), True, None),
        (make_job(managedBy="example.org/other"), True, None),
        (make_job(deleted_at=NOW), True, None),
        (make_job(status=UNDER_WAY), False, JobStage.HOLDING),
        (
            make_job(status=TransferJobStatus(attempts=2, last_failure=FailureStatus(attempt=2, reason="PeerLost", message="x", time=NOW))),
            False,
            JobStage.HOLDING,
        ),
    ],
)
def test_a_job_takes_part_from_when_it_asks_until_it_ends(job: Any, asks: bool, expected: JobStage | None) -> None:
    found = participant_of(observe(job), asks=asks, now=AT)
    assert (found.stage if found else None) == expected


def test_a_scavenger_gives_way() -> None:
    assert not seen(observe(make_job()), asks=True).gives_way
    assert seen(observe(make_job(transport={"trafficClass": "Scavenger"})), asks=True).gives_way


FAILED = Condition(type="Failed", status="True", reason="DeadlineExceeded", message="x", last_transition_time=NOW)
ENDED = TransferJobStatus(attempts=1, conditions=(FAILED,))


@pytest.mark.parametrize(
    "job",
    [make_job(status=UNDER_WAY, deleted_at=NOW), make_job(status=UNDER_WAY, suspend=True), make_job(status=ENDED)],
    ids=["deleted", "suspended", "failed"],
)
@pytest.mark.parametrize(
    ("pods", "cap_bps"),
    [
        ((), None),
        ((receiver(deleting=True),), None),
        ((receiver(), sender(egress_cap="200M")), 2e8),
        ((sender(egress_cap="200M", deleting=True),), 2e8),
        ((sender(egress_cap="200M", deleting=True, phase=PodPhase.UNKNOWN),), 2e8),
        ((sender(egress_cap="200M", deleting=True, phase=PodPhase.PENDING),), None),
        ((sender(egress_cap="200M", verdict=make_verdict()),), None),
    ],
)
def test_a_job_that_leaves_has_its_share_until_its_sender_has_ended_and_no_guarantee(
    job: TransferJob, pods: tuple[MoverPod, ...], cap_bps: float | None
) -> None:
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"bandwidth": Bandwidth(guarantee="100M")})})
    found = participant_of(observe(job, *pods), asks=False, now=AT)
    assert (found and found.annotated) == (None if cap_bps is None else AnnotatedCap(cap_bps, AT))
    assert found is None or (found.stage is not JobStage.ASKING and found.guarantee_bps == 0)


@pytest.mark.parametrize(
    ("stage", "expected"), [("AwaitingTransport", JobStage.HOLDING), ("Transferring", JobStage.FLOWING), ("Verifying", JobStage.HOLDING)]
)
def test_a_job_flows_while_its_movers_transfer(stage: str, expected: JobStage) -> None:
    reports = Reports(receiver=make_progress(5, stage=stage))
    assert seen(observe(make_job(status=UNDER_WAY), receiver(), sender(), reports=reports)).stage is expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ((receiver(),), None),
        ((receiver(), sender(egress_cap="200M")), AnnotatedCap(2e8, AT)),
        ((receiver(), sender()), AnnotatedCap(math.inf, AT)),
        ((receiver(), sender(egress_cap="nonsense")), None),
        ((receiver(), sender(egress_cap="200M", verdict=make_verdict())), None),
    ],
)
def test_the_cap_at_the_pod_is_that_of_a_sender_that_runs(pods: tuple[MoverPod, ...], expected: AnnotatedCap | None) -> None:
    assert seen(observe(make_job(status=UNDER_WAY), *pods)).annotated == expected


def test_on_the_pod_network_the_cap_at_the_pod_is_that_which_its_mover_paces_by() -> None:
    pods = receiver(), sender(egress_cap="1G", pacing_cap="200M")
    assert seen(observe(make_job(status=UNDER_WAY, network="Pod"), *pods)).annotated == AnnotatedCap(2e8, AT)


def test_weights_guarantees_and_limits_are_the_jobs() -> None:
    job = seen(observe(make_job(bandwidth={"limit": "2G", "guarantee": "1G", "weight": 7}, priority=3)), asks=True)
    assert (job.limit_bps, job.guarantee_bps, job.weight, job.priority) == (2e9, 1e9, 7, 3)


def test_what_a_job_sends_is_what_its_senders_sockets_count() -> None:
    reports = Reports(receiver=make_progress(500), sender=replace(make_progress(800), wire_bytes=700, quiet_seconds=2.5, read_at=AT))
    job = seen(observe(make_job(status=UNDER_WAY), receiver(), sender(), reports=reports))
    assert job.sent == CounterReading(AT, 700, quiet_seconds=2.5)


def test_without_the_senders_word_nobody_knows_what_a_job_sends() -> None:
    reports = Reports(receiver=make_progress(500))
    assert seen(observe(make_job(status=UNDER_WAY), receiver(), sender(), reports=reports)).sent is None


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        (Reports(), Contact.NOT_YET),
        (Reports(receiver=make_progress(500)), Contact.NOT_YET),
        (Reports(sender=make_progress(800), sender_age_seconds=150.0), Contact.HEARD),
        (Reports(sender=make_progress(800), sender_unheard_seconds=5.0), Contact.HEARD),
        (Reports(sender_unheard_seconds=0.0), Contact.NOT_YET),
        (Reports(sender_unheard_seconds=29.9), Contact.NOT_YET),
        (Reports(sender_unheard_seconds=30.0), Contact.SILENT),
    ],
)
def test_a_sender_is_heard_of_while_its_last_report_counts_and_silent_once_it_was_asked_in_vain_for_long(
    reports: Reports, expected: Contact
) -> None:
    assert seen(observe(make_job(status=UNDER_WAY), receiver(), sender(), reports=reports)).contact is expected


def test_nodes_come_from_pods_then_from_claims_and_interfaces_from_the_spec_then_from_what_movers_say() -> None:
    spec = {
        "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a", "interface": "data7"},
        "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "b"},
    }
    claims = {"raw": ClaimFacts(exists=True, node="dtn-c")}
    job = seen(observe(make_job(**spec), claims=claims), asks=True)
    assert (job.source, job.destination) == (End("dtn-c", "data7"), End(None, None))
    reports = Reports(
        sender_endpoint=MoverEndpoint("zz0", "198.18.0.1", 24000), receiver_endpoint=MoverEndpoint("data1", "198.18.0.2", 24000)
    )
    running = seen(observe(make_job(status=UNDER_WAY, **spec), receiver(node="dtn-d"), reports=reports, claims=claims))
    assert (running.source, running.destination) == (End("dtn-c", "data7"), End("dtn-d", "data1"))


def test_an_interface_that_was_known_stays_known_while_nobody_answers_on_the_same_node_only() -> None:
    known = EndpointsStatus(
        source=EndpointStatus(node="dtn-a", interface="data0"), destination=EndpointStatus(node="dtn-x", interface="data0")
    )
    status = UNDER_WAY.model_copy(update={"endpoints": known})
    job = seen(observe(make_job(status=status), receiver(), sender()))
    assert (job.source, job.destination) == (End("dtn-a", "data0"), End("dtn-b", None))


def test_interfaces_counters_are_taken_in_both_directions_at_both_ends() -> None:
    progress = replace(make_progress(5), interface_bytes_sent=10, interface_bytes_received=20)
    reports = replace(make_reports(progress), sender=progress, sender_endpoint=MoverEndpoint("data1", "198.18.0.1", 0))
    job = seen(observe(make_job(status=UNDER_WAY), receiver(), sender(), reports=reports))
    assert set(job.counts) == {
        InterfaceCount("dtn-a", "data1", "Transmit", CounterReading(0.0, 10)),
        InterfaceCount("dtn-a", "data1", "Receive", CounterReading(0.0, 20)),
        InterfaceCount("dtn-b", "data0", "Transmit", CounterReading(0.0, 10)),
        InterfaceCount("dtn-b", "data0", "Receive", CounterReading(0.0, 20)),
    }


def test_since_when_a_job_waits_is_remembered_in_its_status() -> None:
    waiting = observe(make_job(), fairness=JobShare(Admission.WAITING, message="full"))
    later = with_plan_applied(waiting, decide(waiting, NOW - seconds(600)))
    assert seen(later, asks=True).asked_at == AT - 600


def test_a_waiting_job_that_is_suspended_waits_anew_when_it_goes_on() -> None:
    waiting = observe(make_job(), fairness=JobShare(Admission.WAITING, message="full"))
    waiting = with_plan_applied(waiting, decide(waiting, NOW - seconds(864000)))
    held = replace(waiting, job=waiting.job.model_copy(update={"spec": make_job(suspend=True).spec}))
    held = with_plan_applied(held, decide(held, NOW - seconds(863990)))
    assert seen(replace(held, job=held.job.model_copy(update={"spec": make_job().spec})), asks=True).asked_at == AT


@pytest.mark.parametrize(("make", "interface"), [(partial(make_job, network="Pod"), "eth0"), (make_attached_job, "data0")])
def test_off_the_nodes_network_any_of_the_nodes_interfaces_may_carry_the_data(make: Callable[..., TransferJob], interface: str) -> None:
    reports = Reports(
        sender_endpoint=MoverEndpoint(interface, "198.18.5.1", 24000),
        sender=replace(make_progress(5), interface_bytes_sent=10, interface_bytes_received=20),
    )
    job = seen(observe(make(status=UNDER_WAY), receiver(), sender(), reports=reports))
    assert (job.source, job.destination) == (End("dtn-a", None), End("dtn-b", None))
    assert job.counts == ()


WIDE = {
    end: {"node": node, "volume": {"persistentVolumeClaim": {"claimName": end}}, "interfaces": ["data0", "data1"]}
    for end, node in (("source", "dtn-a"), ("destination", "dtn-b"))
}


@pytest.mark.parametrize(
    ("pods", "caps"),
    [
        ((), [None, None]),
        ((sender(watches_paths=True, egress_cap="300M", path_caps="100M,200M"),), [1e8, 2e8]),
        ((sender(watches_paths=True, egress_cap="150M", path_caps="100M,200M"),), [1e8, 1.5e8]),
        ((sender(watches_paths=True, path_caps="100M,"),), [1e8, math.inf]),
        ((sender(watches_paths=True, egress_cap="300M"),), [3e8, 3e8]),
        ((sender(watches_paths=True, egress_cap="300M", path_caps="100M"),), [None, None]),
        ((sender(watches_paths=True, egress_cap="300M", path_caps="fast,1"),), [None, None]),
    ],
)
def test_each_of_several_paths_is_seen_with_its_own_cap(pods: tuple[MoverPod, ...], caps: list[float | None]) -> None:
    lanes = seen(observe(make_job(status=UNDER_WAY, **WIDE), *pods)).lanes
    assert [(lane.source, lane.destination) for lane in lanes] == [(End("dtn-a", name), End("dtn-b", name)) for name in ("data0", "data1")]
    assert [None if lane.annotated is None else lane.annotated.bps for lane in lanes] == caps


def test_each_of_several_paths_is_measured_by_itself_and_every_interface_counts_once() -> None:
    at_sender = tuple(InterfaceTraffic(name, sent, 1, wire) for name, sent, wire in (("data0", 50, 40), ("data1", 90, 60)))
    sending = replace(make_progress(5), wire_bytes=100, interfaces=at_sender, read_at=AT, quiet_seconds=2.0)
    receiving = replace(make_progress(5), interfaces=(InterfaceTraffic("data0", 2, 70), InterfaceTraffic("zz9", 9, 9)), read_at=AT - 1)
    reports = Reports(sender=sending, receiver=receiving)
    job = seen(observe(make_job(status=UNDER_WAY, **WIDE), sender(watches_paths=True), reports=reports))
    assert [lane.sent for lane in job.lanes] == [CounterReading(AT, 40, 2.0), CounterReading(AT, 60, 2.0)]
    assert job.sent == CounterReading(AT, 100, 2.0)
    assert job.counts == (
        InterfaceCount("dtn-a", "data0", "Transmit", CounterReading(AT, 50)),
        InterfaceCount("dtn-a", "data0", "Receive", CounterReading(AT, 1)),
        InterfaceCount("dtn-a", "data1", "Transmit", CounterReading(AT, 90)),
        InterfaceCount("dtn-a", "data1", "Receive", CounterReading(AT, 1)),
        InterfaceCount("dtn-b", "data0", "Transmit", CounterReading(AT - 1, 2)),
        InterfaceCount("dtn-b", "data0", "Receive", CounterReading(AT - 1, 70)),
    )


def test_a_sender_that_knows_one_cap_alone_has_no_lanes() -> None:
    job = seen(observe(make_job(status=UNDER_WAY, **WIDE), sender(egress_cap="300M")))
    assert (job.lanes, job.source) == ((), End("dtn-a", None))
