"""Finished jobs, deletion, clean-up and suspension."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_builders import (
    NOW,
    SETTINGS,
    UID,
    cleaner,
    make_failure,
    make_job,
    make_verdict,
    observe,
    receiver,
    seconds,
    sender,
    with_plan_applied,
)

from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.status import EndpointsStatus, EndpointStatus, FailureStatus, PodRecord
from fairlead.core.identities import Identities
from fairlead.core.lifecycle import decide
from fairlead.core.observed import ClaimFacts, MoverPod, NodeFacts, Observed, PodPhase, Role
from fairlead.core.plan import Plan
from fairlead.core.settings import OperatorSettings

CLEANED = make_verdict(reason="Cleaned", attempt=0)


def after(observed: Observed) -> TransferJob:
    return with_plan_applied(observed, decide(observed, NOW)).job


def succeeded_job(**spec: object) -> TransferJob:
    return after(observe(make_job(finalizer=True, **spec), receiver(verdict=make_verdict())))


def failed_job(**spec: object) -> TransferJob:
    return after(observe(make_job(finalizer=True, **spec), receiver(verdict=make_failure("DestinationFull", retry=False))))


def begun_job(**spec: object) -> TransferJob:
    return make_job(finalizer=True, status=TransferJobStatus(attempts=1), **spec)


def deleting(job: TransferJob, seconds_ago: float = 0) -> TransferJob:
    metadata = job.metadata.model_copy(update={"deletion_timestamp": NOW - seconds(seconds_ago)})
    return job.model_copy(update={"metadata": metadata})


def test_a_job_that_succeeded_gives_up_its_finalizer_and_keeps_its_pods_for_their_logs() -> None:
    movers = receiver(verdict=make_verdict()), sender(verdict=make_verdict())
    plan = decide(observe(after(observe(make_job(finalizer=True), *movers)), *movers), NOW)
    assert plan.finalizer is False
    assert plan.deletes == plan.creates == ()
    assert plan.status is None


def test_a_sender_that_outlives_success_gets_ten_seconds() -> None:
    observed = observe(succeeded_job(), receiver(verdict=make_verdict()), sender())
    assert decide(observed, NOW + seconds(9)).deletes == ()
    assert [delete.name for delete in decide(observed, NOW + seconds(10)).deletes] == [sender().name]


def test_a_finished_job_is_not_judged_again_when_the_world_changes() -> None:
    plan = decide(observe(succeeded_job(), claims={"raw": ClaimFacts(exists=False)}, settings=type(SETTINGS)()), NOW)
    assert plan.status is None


def test_a_failed_job_has_its_partial_files_removed_where_they_are() -> None:
    plan = decide(observe(failed_job(), receiver(verdict=make_failure("DestinationFull", retry=False))), NOW)
    assert [(create.role, create.node) for create in plan.creates] == [(Role.CLEANER, "dtn-b")]
    assert plan.finalizer is None
    cleaned = decide(observe(failed_job(), cleaner(verdict=CLEANED)), NOW)
    assert cleaned.finalizer is False


def test_the_cleaner_that_proves_that_nothing_is_left_goes_after_the_finalizer() -> None:
    """Somebody else's write may refuse the finalizer's removal, and without the proof the next pass would start another cleaner."""
    cleaned = cleaner(verdict=CLEANED)
    deleted, failed = deleting(make_job(finalizer=True)), failed_job()
    for job in (deleted, failed):
        plan = decide(observe(job, cleaned), NOW)
        assert (plan.finalizer, plan.deletes, [proof.name for proof in plan.proofs]) == (False, (), [cleaned.name])
    let_go = failed.model_copy(update={"metadata": failed.metadata.model_copy(update={"finalizers": ()})})
    assert [delete.name for delete in decide(observe(let_go, cleaned), NOW).deletes] == [cleaned.name]


def test_the_cleaner_waits_until_no_mover_runs() -> None:
    assert decide(observe(failed_job(), receiver()), NOW).creates == ()


@pytest.mark.parametrize(
    "verdict",
    [make_verdict("Failed", "DestinationUnwritable", attempt=0), make_verdict(reason="Cleaned", attempt=0, job="another")],
    ids=["it failed", "it cleaned for another job"],
)
def test_a_cleaner_that_proves_nothing_is_replaced_after_a_pause(verdict: object) -> None:
    tried = cleaner(verdict=verdict, created_at=NOW)
    assert decide(observe(failed_job(), tried), NOW + seconds(9)).deletes == ()
    plan = decide(observe(failed_job(), tried), NOW + seconds(10))
    assert [delete.name for delete in plan.deletes] == [tried.name]
    assert plan.finalizer is None


def test_a_failed_job_whose_destination_stays_away_keeps_its_finalizer_and_rests() -> None:
    observed = observe(failed_job(), cleaner(phase=PodPhase.PENDING, ready=False))
    plan = decide(observed, NOW + SETTINGS.cleanup_timeout)
    assert plan.finalizer is None
    assert [delete.name for delete in plan.deletes] == [cleaner().name]
    assert decide(observe(failed_job()), NOW + SETTINGS.cleanup_timeout) == Plan()


def test_deletion_stops_both_movers_before_it_cleans() -> None:
    job = deleting(begun_job())
    plan = decide(observe(job, receiver(), sender()), NOW)
    assert {delete.name for delete in plan.deletes} == {receiver().name, sender().name}
    assert plan.creates == ()
    assert plan.finalizer is None
    stopped = decide(observe(job), NOW)
    assert [create.role for create in stopped.creates] == [Role.CLEANER]
    done = decide(observe(job, cleaner(verdict=CLEANED)), NOW)
    assert done.finalizer is False
    assert done.events == ()


def test_deletion_of_a_job_that_never_had_a_receiver_is_left_to_the_cluster() -> None:
    plan = decide(observe(deleting(make_job())), NOW)
    assert (plan.finalizer, plan.creates, plan.events) == (None, (), ())


RECEIVED_ON_DTN_C = EndpointsStatus(destination=EndpointStatus(pod="run42-receiver-1", node="dtn-c"))
CLAIM_OF_ANY_NODE = {"node": None, "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "run42"}


@pytest.mark.parametrize(
    ("facts", "node"),
    [
        (NodeFacts(exists=True, ready=True), "dtn-c"),
        (NodeFacts(exists=True, ready=True, schedulable=False), None),
        (NodeFacts(exists=True, ready=False), None),
        (NodeFacts(exists=False), None),
    ],
    ids=["that is ready", "that is cordoned", "that is not ready", "that is gone"],
)
def test_a_volume_of_several_nodes_is_cleaned_up_where_the_receiver_ran_on_a_node(facts: NodeFacts, node: str | None) -> None:
    status = TransferJobStatus(attempts=1, endpoints=RECEIVED_ON_DTN_C)
    job = make_job(finalizer=True, status=status, destination=CLAIM_OF_ANY_NODE)
    plan = decide(observe(deleting(job), nodes={"dtn-c": facts}), NOW)
    assert [(create.role, create.node) for create in plan.creates] == [(Role.CLEANER, node)]


def test_what_may_be_left_is_said_to_be_on_the_node_of_the_last_receiver_also_where_that_is_gone() -> None:
    status = TransferJobStatus(attempts=1, endpoints=RECEIVED_ON_DTN_C)
    job = make_job(finalizer=True, status=status, destination=CLAIM_OF_ANY_NODE)
    late = deleting(job, seconds_ago=SETTINGS.cleanup_timeout.total_seconds())
    plan = decide(observe(late, nodes={"dtn-c": NodeFacts(exists=False)}), NOW)
    assert "claim scratch (node dtn-c)" in plan.events[0].message


PULLING = receiver(phase=PodPhase.PENDING, ready=False, waiting_reason="ImagePullBackOff")


def _failed_to_start(reason: str = "ReceiverNotReady", **status: object) -> TransferJob:
    job = make_job(finalizer=True)
    failure = FailureStatus(attempt=1, reason=reason, message="", time=NOW)
    return job.model_copy(update={"status": job.status.model_copy(update={"last_failure": failure, "attempts": 1, **status})})


RAN = EndpointsStatus(source=EndpointStatus(pod="run42-sender-1", node="dtn-a"))


@pytest.mark.parametrize(
    ("job", "pods", "needs_cleaner"),
    [
        (make_job(finalizer=True), (PULLING,), False),
        (_failed_to_start(), (), False),
        (_failed_to_start(), (replace(PULLING, attempt=2, name="run42-receiver-2"),), False),
        (make_job(finalizer=True), (), False),
        (begun_job(), (), True),
        (make_job(finalizer=True), (receiver(),), True),
        (make_job(finalizer=True), (replace(PULLING, exit_code=137),), True),
        (make_job(finalizer=True), (PULLING, sender()), True),
        (_failed_to_start("PeerLost"), (), True),
        (_failed_to_start(endpoints=RAN), (), True),
        (_failed_to_start(pods=(PodRecord(uid="s", name="s", role="sender", attempt=1),)), (), True),
        (make_job(finalizer=True), (replace(PULLING, attempt=2, name="run42-receiver-2"),), True),
    ],
    ids=[
        "its image never came",
        "it gave up waiting for the image",
        "it waits for the image again",
        "no pod of it could be created",
        "its receiver is gone, and what it did is not known",
        "its receiver runs",
        "its receiver has run",
        "its sender runs",
        "it failed in mid-transfer",
        "a sender of it ran once",
        "a sender was made",
        "an earlier attempt is not known",
    ],
)
def test_deletion_cleans_only_where_data_can_have_arrived(job: TransferJob, pods: tuple[MoverPod, ...], needs_cleaner: bool) -> None:
    plan = decide(observe(deleting(job), *pods), NOW)
    assert (plan.finalizer is None) is needs_cleaner
    assert {delete.name for delete in plan.deletes} == {pod.name for pod in pods}
    assert plan.events == ()


def test_deletion_says_that_its_cleaner_is_refused() -> None:
    plan = decide(observe(deleting(failed_job()), refusal="exceeded quota"), NOW)
    assert plan.creates == ()
    assert plan.status is not None
    ready = plan.status.condition("MoversReady")
    assert ready is not None
    assert (ready.reason, "exceeded quota" in ready.message) == ("CreationRefused", True)


def test_deletion_says_what_may_be_left_when_the_cleaner_cannot_run_in_time() -> None:
    job = deleting(make_job(finalizer=True), seconds_ago=300)
    plan = decide(observe(job, cleaner(phase=PodPhase.PENDING, ready=False)), NOW)
    assert plan.finalizer is False
    assert [(event.reason, event.warning) for event in plan.events] == [("CleanupSkipped", True)]
    assert plan.events[0].message == (
        "partial files may be left on claim scratch (node dtn-b): they could not be removed in time;"
        f" remove by hand the directory .fairlead-{UID} in run42"
    )


def test_deletion_does_not_wait_for_a_claim_that_is_gone() -> None:
    plan = decide(observe(deleting(begun_job()), claims={"scratch": ClaimFacts(exists=False)}), NOW)
    assert plan.finalizer is False
    assert [event.reason for event in plan.events] == ["CleanupSkipped"]


def test_no_cleaner_runs_as_a_user_that_the_namespace_may_not_use() -> None:
    foreign = OperatorSettings(identities=Identities.from_object({"default": {"users": ["10000-10999"]}}))
    plan = decide(observe(deleting(begun_job()), settings=foreign), NOW)
    assert (plan.creates, plan.finalizer) == ((), False)
    assert [event.reason for event in plan.events] == ["CleanupSkipped"]


def test_deletion_right_after_everything_arrived_needs_no_cleaner() -> None:
    plan = decide(observe(deleting(make_job(finalizer=True)), receiver(verdict=make_verdict())), NOW)
    assert plan.finalizer is False
    assert plan.creates == ()


def test_time_to_live_deletes_the_job_and_not_before() -> None:
    job = succeeded_job(ttlSecondsAfterFinished=60)
    waiting = decide(observe(job), NOW + seconds(59))
    assert not waiting.delete_job
    assert waiting.requeue_after == seconds(1)
    assert decide(observe(job), NOW + seconds(60)).delete_job


def test_suspension_stops_the_movers_and_keeps_what_arrived() -> None:
    job = after(observe(make_job(finalizer=True), receiver(), sender()))
    spec = job.spec.model_copy(update={"suspend": True})
    plan = decide(observe(job.model_copy(update={"spec": spec}), receiver(), sender()), NOW)
    assert len(plan.deletes) == 2
    assert plan.finalizer is None
    assert plan.creates == ()
    assert plan.status is not None
    assert plan.status.phase == "Suspended"
    assert plan.status.attempt_start_time is None


def test_a_job_that_is_born_suspended_is_not_held_by_a_finalizer() -> None:
    plan = decide(observe(make_job(suspend=True)), NOW)
    assert (plan.finalizer, plan.creates, plan.requeue_after) == (None, (), None)


def test_success_that_crossed_with_the_suspension_is_success() -> None:
    plan = decide(observe(make_job(finalizer=True, suspend=True), receiver(verdict=make_verdict())), NOW)
    assert plan.status is not None
    assert plan.status.is_true("Succeeded")
