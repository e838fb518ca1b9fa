"""One attempt: what is created when, what is reported, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from job_builders import (
    ENDPOINT,
    NOW,
    SETTINGS,
    make_attached_job,
    make_failure,
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

from fairlead.api.names import ANNOTATION_EGRESS_BANDWIDTH
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.spec import Bandwidth
from fairlead.core.cap_excess import CATCH_UP_SECONDS, Arrived, CapExcess
from fairlead.core.lifecycle import decide
from fairlead.core.lifecycle.machine import HELD_UP
from fairlead.core.observed import MoverPod, NodeFacts, Observed, PodPhase, Role
from fairlead.core.plan import AnnotatePod, CreateCredentials, Plan
from fairlead.core.ports import PortsInUse
from fairlead.core.reports import ReportRefusal, Reports, Verdict


def after(observed: Observed, now: datetime = NOW) -> TransferJob:
    """The job once a pass over `observed` has been written."""
    return with_plan_applied(observed, decide(observed, now)).job


def running_job(*, decided: bool = False) -> TransferJob:
    """A job whose first attempt has both movers up."""
    job = after(observe(make_job(finalizer=True), receiver()))
    return after(observe(job, receiver(), sender(), reports=make_reports(decided=decided)))


def written(plan: Plan) -> TransferJobStatus:
    assert plan.status is not None
    return plan.status


def condition_of(plan: Plan, kind: str) -> tuple[str, str]:
    condition = written(plan).condition(kind)
    assert condition is not None
    return condition.status, condition.reason


def test_the_first_pass_holds_the_job_then_makes_credentials_then_the_receiver() -> None:
    plan = decide(observe(make_job()), NOW)
    assert plan.finalizer is True
    assert plan.credentials == (CreateCredentials(1),)
    assert [(create.role, create.attempt, create.node) for create in plan.creates] == [(Role.RECEIVER, 1, "dtn-b")]
    assert (written(plan).attempts, written(plan).start_time) == (1, NOW)
    assert [event.reason for event in plan.events] == []


def test_the_sender_waits_for_a_receiver_that_is_ready_and_has_told_its_endpoint() -> None:
    job = after(observe(make_job()))
    not_ready = decide(observe(job, receiver(ready=False), reports=make_reports()), NOW)
    silent = decide(observe(job, receiver(), reports=Reports()), NOW)
    ready = decide(observe(job, receiver(), reports=make_reports()), NOW)
    assert not_ready.creates == silent.creates == ()
    assert [(create.role, create.node, create.receiver) for create in ready.creates] == [(Role.SENDER, "dtn-a", ENDPOINT)]


def test_two_movers_on_one_node_get_different_ports() -> None:
    job = after(observe(make_job()))
    free = decide(observe(job, receiver(), reports=make_reports()), NOW).creates[0].port_base
    other = decide(observe(job, receiver(port_base=free), reports=make_reports()), NOW).creates[0].port_base
    assert other != free


@pytest.mark.parametrize("role", [Role.RECEIVER, Role.SENDER])
def test_a_mover_that_found_a_port_taken_gets_others_in_the_next_attempt(role: Role) -> None:
    def created_again(base: int) -> int:
        """First port of the role's next pod, where its first one had `base`, and is gone by then."""
        job = after(observe(make_job(finalizer=True), receiver()))
        failed, other = make_failure("AddressInUse", retry=True), make_failure("PeerFailed", retry=True)
        ended = [
            receiver(port_base=base, verdict=failed if role is Role.RECEIVER else other),
            sender(port_base=base, verdict=failed if role is Role.SENDER else other),
        ]
        begun = observe(after(observe(job, *ended)))
        later = NOW + seconds(3600)
        (create,) = decide(begun, later).creates
        if role is Role.SENDER:
            up = receiver(attempt=2, port_base=create.port_base)
            (create,) = decide(observe(after(begun, later), up, reports=make_reports()), later).creates
        assert (create.role, create.attempt) == (role, 2)
        return create.port_base

    # What it would get but for that.
    again = created_again(SETTINGS.ports.first)
    assert created_again(again) != again


def test_without_a_free_port_the_job_waits_and_says_so() -> None:
    taken = frozenset(range(SETTINGS.ports.first, SETTINGS.ports.last, 4))
    observed = observe(make_job(), ports_in_use=PortsInUse(placed={"dtn-b": taken}))
    plan = decide(observed, NOW)
    assert plan.creates == plan.credentials == ()
    assert condition_of(plan, "Scheduled") == ("False", "NoPortFree")
    again = with_plan_applied(observed, plan)
    assert decide(again, NOW + seconds(60)).status is None
    # There may be thousands of them, and nothing of theirs runs that changes.
    assert decide(again, NOW + seconds(60)).requeue_after == SETTINGS.recheck_interval


def test_no_receiver_is_made_whose_sender_would_get_no_port() -> None:
    taken = frozenset(range(SETTINGS.ports.first, SETTINGS.ports.last, 4))
    plan = decide(observe(make_job(), ports_in_use=PortsInUse(placed={"dtn-a": taken})), NOW)
    assert plan.creates == plan.credentials == ()
    assert condition_of(plan, "Scheduled") == ("False", "NoPortFree")


def test_a_receiver_leaves_the_last_block_of_its_node_to_senders() -> None:
    *taken, last = range(SETTINGS.ports.first, SETTINGS.ports.last, 4)
    plan = decide(observe(make_job(), ports_in_use=PortsInUse(placed={"dtn-b": frozenset(taken)})), NOW)
    assert condition_of(plan, "Scheduled") == ("False", "NoPortFree")
    in_use = PortsInUse(placed={"dtn-a": frozenset(taken)})
    begun = observe(after(observe(make_job())), receiver(port_base=taken[0]), reports=make_reports(), ports_in_use=in_use)
    assert [(create.role, create.port_base) for create in decide(begun, NOW).creates] == [(Role.SENDER, last)]


def test_the_last_block_of_a_namespace_goes_to_a_sender_so_that_receivers_alone_never_wait_for_each_other() -> None:
    share = SETTINGS.ports.most_of_namespace
    one_left = dict.fromkeys(("dtn-a", "dtn-b"), share - 1)
    fresh = decide(observe(make_job(), ports_in_use=PortsInUse(of_namespace=one_left)), NOW)
    assert fresh.creates == ()
    assert condition_of(fresh, "Scheduled") == ("False", "PortShareUsedUp")
    begun = observe(after(observe(make_job())), receiver(), reports=make_reports(), ports_in_use=PortsInUse(of_namespace=one_left))
    assert [create.role for create in decide(begun, NOW).creates] == [Role.SENDER]


def test_a_sender_without_a_free_port_does_not_make_the_condition_flap() -> None:
    taken = frozenset(range(SETTINGS.ports.first, SETTINGS.ports.last, 4))
    observed = observe(after(observe(make_job())), receiver(), reports=make_reports(), ports_in_use=PortsInUse(placed={"dtn-a": taken}))
    again = with_plan_applied(observed, decide(observed, NOW))
    assert decide(again, NOW + seconds(60)).status is None


def test_a_waiting_container_is_reported_at_once_with_its_own_words() -> None:
    job = after(observe(make_job()))
    held = receiver(ready=False, phase=PodPhase.PENDING, waiting_reason="ErrImageNeverPull", waiting_message="image is not present")
    plan = decide(observe(job, held), NOW)
    assert condition_of(plan, "MoversReady") == ("False", "ReceiverNotReady")
    movers_ready = written(plan).condition("MoversReady")
    assert movers_ready is not None
    assert "ErrImageNeverPull: image is not present" in movers_ready.message
    assert [event.reason for event in plan.events] == ["MoversNotReady"]


@pytest.mark.parametrize("age", [0, 121, 3600])
def test_a_receiver_that_nobody_has_asked_yet_has_not_failed_however_late_the_operator_comes(age: int) -> None:
    job = after(observe(make_job()), NOW)
    plan = decide(observe(job, receiver(created_at=NOW)), NOW + seconds(age))
    assert (plan.status or job.status).last_failure is None
    assert condition_of(plan, "MoversReady") in {None, ("False", "MoversStarting")}


@pytest.mark.parametrize(("in_vain", "fails"), [(2, False), (119, False), (120, True)])
def test_a_receiver_that_is_up_has_its_time_from_when_it_was_first_asked_in_vain(in_vain: int, *, fails: bool) -> None:
    job = after(observe(make_job()), NOW)
    observed = observe(
        job, receiver(created_at=NOW), reports=Reports(receiver_unheard_seconds=3600.0, endpoint_unheard_seconds=float(in_vain))
    )
    status = decide(observed, NOW + seconds(3600)).status or job.status
    assert (status.last_failure is not None) is fails


@pytest.mark.parametrize("port_base", [None, 80, 25999])
def test_a_receiver_that_may_not_be_asked_fails_its_attempt_and_says_why(port_base: int | None) -> None:
    job = after(observe(make_job()), NOW)
    failure = written(decide(observe(job, receiver(created_at=NOW, port_base=port_base)), NOW + seconds(120))).last_failure
    assert failure is not None
    assert "its ports are not all of" in failure.message


@pytest.mark.parametrize("trouble", [{"address": None}, {"phase": PodPhase.PENDING, "waiting_reason": "ImagePullBackOff"}])
def test_a_receiver_that_cannot_be_asked_although_its_mover_is_ready_fails_its_attempt(trouble: dict[str, Any]) -> None:
    job = after(observe(make_job()), NOW)
    plan = decide(observe(job, receiver(created_at=NOW, **trouble)), NOW + seconds(119))
    assert condition_of(plan, "MoversReady") == ("False", "ReceiverNotReady")
    failure = written(decide(observe(job, receiver(created_at=NOW, **trouble)), NOW + seconds(120))).last_failure
    assert failure is not None
    assert trouble.get("waiting_reason", "no address") in failure.message


def test_a_receiver_whose_endpoint_is_refused_has_its_time_from_the_first_answer() -> None:
    job = after(observe(make_job()), NOW)
    refusal = ReportRefusal("receiver", "ReportMalformed", "its endpoint is refused")
    for in_vain, fails in ((1.0, False), (120.0, True)):
        observed = observe(job, receiver(created_at=NOW), reports=Reports(endpoint_unheard_seconds=in_vain, refusals=(refusal,)))
        status = decide(observed, NOW + seconds(3600)).status or job.status
        assert (status.last_failure is not None) is fails


@pytest.mark.parametrize(("age", "reason"), [(4, "MoversStarting"), (5, "ReceiverNotReady"), (119, "ReceiverNotReady")])
def test_a_receiver_that_is_merely_slow_is_named_after_five_seconds(age: int, reason: str) -> None:
    job = after(observe(make_job()), NOW)
    plan = decide(observe(job, receiver(ready=False, phase=PodPhase.PENDING, created_at=NOW)), NOW + seconds(age))
    status = plan.status or job.status
    condition = status.condition("MoversReady")
    assert condition is not None
    assert condition.reason == reason


@pytest.mark.parametrize(("age", "reason"), [(1, "MoversStarting"), (5, "ReceiverNotReady")])
def test_what_the_scheduler_says_of_a_new_pod_is_no_trouble_yet(age: int, reason: str) -> None:
    job = after(observe(make_job()), NOW)
    held = receiver(ready=False, node=None, phase=PodPhase.PENDING, waiting_reason="Unschedulable", created_at=NOW)
    plan = decide(observe(job, held), NOW + seconds(age))
    condition = (plan.status or job.status).condition("MoversReady")
    assert condition is not None
    assert condition.reason == reason


def test_a_receiver_that_does_not_come_up_in_time_fails_the_attempt() -> None:
    job = after(observe(make_job()))
    plan = decide(observe(job, receiver(ready=False, created_at=NOW)), NOW + SETTINGS.startup_timeout)
    assert condition_of(plan, "MoversReady") == ("False", "BackingOff")
    assert written(plan).failures == 1
    assert [delete.name for delete in plan.deletes] == [receiver().name]


def test_a_sender_that_has_ended_before_both_were_seen_up_leaves_the_receiver_its_time() -> None:
    job = after(observe(make_job(finalizer=True), receiver()))
    done = sender(ready=False, verdict=make_verdict(), created_at=NOW)
    plan = decide(observe(job, receiver(), done), NOW + SETTINGS.startup_timeout)
    assert plan.deletes == ()
    assert plan.status is None or not plan.status.failures


def test_a_mover_that_waited_for_room_on_its_node_has_its_whole_time_from_then_on() -> None:
    job, timeout = after(observe(make_job())), SETTINGS.startup_timeout
    placed = receiver(ready=False, created_at=NOW, placed_at=NOW + timeout - seconds(1))
    assert not written(decide(observe(job, placed), NOW + timeout)).failures
    plan = decide(observe(job, placed), NOW + 2 * timeout - seconds(1))
    assert condition_of(plan, "MoversReady") == ("False", "BackingOff")
    assert written(plan).failures == 1


def test_a_mover_that_was_ready_and_is_not_for_a_moment_has_its_whole_time_from_then_on() -> None:
    job, timeout = after(observe(make_job(), receiver())), SETTINGS.startup_timeout
    unready = receiver(ready=False, created_at=NOW, unready_since=NOW + 2 * timeout)
    assert not written(decide(observe(job, unready), NOW + 3 * timeout - seconds(1))).failures
    assert written(decide(observe(job, unready), NOW + 3 * timeout)).failures == 1


def test_a_mover_that_is_unready_since_later_than_now_by_its_nodes_clock_has_its_time_from_its_creation_on() -> None:
    job, timeout = after(observe(make_job(), receiver())), SETTINGS.startup_timeout
    unready = receiver(ready=False, created_at=NOW, unready_since=NOW + 3 * timeout)
    assert written(decide(observe(job, unready), NOW + timeout)).failures == 1


def test_an_unschedulable_mover_is_reported_with_the_schedulers_words() -> None:
    job = after(observe(make_job()))
    held = receiver(
        ready=False, node=None, phase=PodPhase.PENDING, waiting_reason="Unschedulable", waiting_message="0/3 nodes are available"
    )
    plan = decide(observe(job, held), NOW)
    assert condition_of(plan, "Scheduled") == ("False", "WaitingForScheduler")


@pytest.mark.parametrize("role", ["receiver", "sender"])
def test_a_mover_that_cannot_be_placed_waits_and_counts_as_no_failure(role: str) -> None:
    unplaced = {"ready": False, "node": None, "phase": PodPhase.PENDING, "created_at": NOW}
    unplaced |= {"waiting_reason": "Unschedulable", "waiting_message": "0/3 nodes are available: 3 Insufficient cpu."}
    pods = (receiver(**unplaced),) if role == "receiver" else (receiver(), sender(**unplaced))
    job = after(observe(make_job(finalizer=True, spec={"backoffLimit": 0})))
    plan = decide(observe(job, *pods, reports=make_reports()), NOW + SETTINGS.startup_timeout)
    status = written(plan)
    assert condition_of(plan, "MoversReady") == ("False", "BackingOff")
    assert {delete.uid for delete in plan.deletes} == {pod.uid for pod in pods}, "what it holds is for others until the next attempt"
    assert (status.attempts, status.attempt_start_time, status.failures, status.finished) == (1, None, None, False)
    assert status.last_failure is not None
    assert "Insufficient cpu" in status.last_failure.message
    (create,) = decide(observe(job.model_copy(update={"status": status})), NOW + SETTINGS.startup_timeout + seconds(60)).creates
    assert (create.role, create.attempt) == (Role.RECEIVER, 2)


def test_decision_and_path_stay_in_the_status_when_nobody_answers_any_more() -> None:
    job = running_job(decided=True)
    assert job.status.decision is not None
    assert job.status.path is not None
    assert (job.status.decision.congestion_control, job.status.path.rtt, job.status.path.loss) == ("cubic", "60.2ms", "0.001")
    plan = decide(observe(job, receiver(), sender()), NOW)
    assert plan.status is None
    assert job.status.phase == "Transferring"


def test_the_phase_follows_what_arrives() -> None:
    job = running_job()
    assert job.status.phase == "Probing"
    transferring = after(observe(job, receiver(), sender(), reports=make_reports(make_progress(10), decided=True)))
    assert transferring.status.phase == "Transferring"
    verifying = after(
        observe(transferring, receiver(), sender(), reports=make_reports(make_progress(1000), decided=True)), NOW + seconds(1)
    )
    assert verifying.status.phase == "Verifying"


def test_the_job_succeeds_on_the_receivers_verdict_with_its_account() -> None:
    verdict = make_verdict(bytes_total=1000, bytes_transferred=900, bytes_skipped=100, files_total=3, seconds=12.0, bulk_seconds=9.0)
    plan = decide(observe(running_job(), receiver(verdict=verdict), sender()), NOW)
    status = written(plan)
    assert status.is_true("Succeeded")
    assert status.phase == "Succeeded"
    assert status.completion_time == NOW
    assert status.progress is not None
    assert (status.progress.percent, status.progress.rate, status.progress.bytes_skipped) == (100, "800", 100)
    assert [event.reason for event in plan.events] == ["Succeeded"]


@pytest.mark.parametrize(
    ("known", "sender_phase", "since_end", "waits"),
    [
        (False, PodPhase.RUNNING, 1, True),
        (False, PodPhase.RUNNING, 5, False),
        (False, PodPhase.SUCCEEDED, 1, False),
        (True, PodPhase.RUNNING, 1, False),
        (False, None, 1, True),
        (False, None, 5, False),
    ],
    ids=["nobody has seen it", "it does not come", "the sidecar left none", "it was polled", "no watch shows the sender", "it is gone"],
)
def test_a_success_waits_a_moment_for_a_decision_that_nobody_has_seen(
    known: bool, sender_phase: PodPhase | None, since_end: float, waits: bool
) -> None:
    ended = receiver(verdict=make_verdict(), ended_at=NOW - seconds(since_end))
    senders = () if sender_phase is None else (sender(phase=sender_phase),)
    plan = decide(observe(running_job(), ended, *senders, reports=make_reports(decided=known)), NOW)
    assert (plan.status is None or not plan.status.is_true("Succeeded")) == waits
    assert plan.requeue_after is not None


def test_what_earlier_attempts_left_is_no_part_of_what_was_sent() -> None:
    verdict = make_verdict(bytes_total=1000, bytes_transferred=1000, bytes_resumed=400, files_total=3, seconds=12.0, bulk_seconds=6.0)
    status = written(decide(observe(running_job(), receiver(verdict=verdict), sender()), NOW))
    succeeded = status.condition("Succeeded")
    assert succeeded is not None
    assert "600 bytes sent in 12.0 s, 400 bytes were there from earlier attempts" in succeeded.message
    assert status.progress is not None
    assert (status.progress.bytes_transferred, status.progress.rate) == (1000, "800")


def test_the_senders_word_alone_is_no_success() -> None:
    plan = decide(observe(running_job(), receiver(), sender(verdict=make_verdict())), NOW)
    assert plan.status is None


@pytest.mark.parametrize("stray", [{"job": "another"}, {"attempt": 7}], ids=["another job", "another attempt"])
def test_a_verdict_that_names_something_else_proves_nothing(stray: dict[str, object]) -> None:
    verdict = make_verdict(**stray)
    plan = decide(observe(running_job(), receiver(verdict=verdict), sender()), NOW)
    assert not written(plan).is_true("Succeeded")
    failure = written(plan).last_failure
    assert failure is not None
    assert failure.reason == "VerdictMismatch"


def test_a_failure_that_no_retry_helps_ends_the_job_with_its_reason() -> None:
    ends = observe(running_job(), receiver(), sender(verdict=make_failure("SourceMissing", retry=False)))
    plan = decide(ends, NOW)
    assert condition_of(plan, "Failed") == ("True", "SourceMissing")
    assert [delete.name for delete in plan.deletes] == [receiver().name]
    assert [event.reason for event in plan.events] == ["Failed"]


PREFERENCES: dict[str, tuple[Verdict, Verdict, str]] = {
    "specific over PeerFailed": (make_failure("PeerFailed", retry=True), make_failure("SourceEmpty", retry=False), "SourceEmpty"),
    "specific over PeerLost": (make_failure("DestinationFull", retry=False), make_failure("PeerLost", retry=True), "DestinationFull"),
    "specific over a PeerFailed that forbids a retry": (
        make_failure("PeerFailed", retry=False),
        make_failure("DestinationExists", retry=False),
        "DestinationExists",
    ),
    "final over retryable": (make_failure("InternalError", retry=True), make_failure("SourceUnreadable", retry=False), "SourceUnreadable"),
}


@pytest.mark.parametrize(("of_receiver", "of_sender", "reason"), PREFERENCES.values(), ids=PREFERENCES.keys())
def test_the_most_telling_reason_is_reported(of_receiver: Verdict, of_sender: Verdict, reason: str) -> None:
    plan = decide(observe(running_job(), receiver(verdict=of_receiver), sender(verdict=of_sender)), NOW)
    assert condition_of(plan, "Failed") == ("True", reason)


def test_a_reason_that_says_little_waits_for_the_other_end_before_it_counts() -> None:
    job = running_job()
    pods = receiver(verdict=make_failure("PeerFailed", retry=True)), sender()
    first = observe(job, *pods)
    plan = decide(first, NOW)
    assert plan.deletes == ()
    assert written(plan).failures is None
    heard = observe(with_plan_applied(first, plan).job, pods[0], sender(verdict=make_failure("SourceChanged", retry=False)))
    assert condition_of(decide(heard, NOW + seconds(2)), "Failed") == ("True", "SourceChanged")
    unheard = observe(with_plan_applied(first, plan).job, *pods)
    late = decide(unheard, NOW + seconds(10))
    assert written(late).failures == 1
    assert [delete.name for delete in late.deletes] == [sender().name]


DEATHS: dict[str, MoverPod] = {
    "killed for memory": sender(phase=PodPhase.FAILED, exit_code=137, waiting_reason="OOMKilled"),
    "evicted": sender(phase=PodPhase.FAILED, waiting_reason="Evicted", waiting_message="low on disk"),
    "exited well but silent": sender(phase=PodPhase.SUCCEEDED, exit_code=0),
}


@pytest.mark.parametrize("dead", DEATHS.values(), ids=DEATHS.keys())
def test_a_mover_that_dies_without_a_verdict_is_retried(dead: MoverPod) -> None:
    job = after(observe(running_job(), dead), NOW)
    assert job.status.last_failure is not None
    assert job.status.last_failure.reason == "MoverDied"
    assert job.status.failures == 1


def test_a_mover_that_vanished_is_a_dead_one() -> None:
    plan = decide(observe(running_job(), sender()), NOW)
    assert written(plan).last_failure is not None
    assert condition_of(plan, "MoversReady") == ("False", "BackingOff")


def test_a_mover_lost_with_its_node_is_a_dead_one() -> None:
    lost = replace(receiver(), deleting=True)
    gone = {"dtn-b": NodeFacts(exists=True, ready=False)}
    waiting = decide(observe(running_job(), lost, sender()), NOW)
    assert waiting.status is None
    plan = decide(observe(running_job(), lost, sender(verdict=make_failure("PeerLost", retry=True)), nodes=gone), NOW)
    assert plan.status is not None
    assert plan.status.last_failure is not None
    assert plan.status.last_failure.reason == "MoverDied"


def test_a_pod_that_was_created_but_not_yet_seen_is_created_again_under_the_same_name() -> None:
    first = decide(observe(make_job()), NOW)
    unseen = with_plan_applied(observe(make_job()), first)
    assert decide(unseen, NOW).creates == first.creates


def test_an_attempt_whose_status_was_not_written_is_taken_up_where_it_is() -> None:
    plan = decide(observe(make_job(finalizer=True), receiver(attempt=3), reports=make_reports()), NOW)
    assert [(create.role, create.attempt) for create in plan.creates] == [(Role.SENDER, 3)]
    assert written(plan).attempts == 3
    assert written(plan).attempt_start_time == receiver().created_at


def test_the_next_attempt_waits_for_the_pause_and_until_the_last_pods_are_gone() -> None:
    failed = (receiver(verdict=make_failure("PeerLost", retry=True)), sender(verdict=make_failure("PeerLost", retry=True)))
    job = after(observe(running_job(), *failed))
    early = decide(observe(job, *failed), NOW + seconds(9))
    assert (early.creates, early.deletes) == ((), ())
    assert early.requeue_after == seconds(1)
    lingering = decide(observe(job, receiver(deleting=True)), NOW + seconds(11))
    assert lingering.creates == ()
    due = decide(observe(job, *failed), NOW + seconds(11))
    assert {delete.name for delete in due.deletes} == {pod.name for pod in failed}
    assert [(create.role, create.attempt) for create in due.creates] == [(Role.RECEIVER, 2)]
    assert due.credentials == (CreateCredentials(2),)


def test_pods_of_an_earlier_attempt_are_fenced_off_from_the_one_under_way() -> None:
    job = after(observe(make_job(finalizer=True), receiver(attempt=2)))
    plan = decide(observe(job, receiver(attempt=2), sender(attempt=1)), NOW)
    assert [delete.name for delete in plan.deletes] == [sender(attempt=1).name]


def test_a_deadline_ends_the_job_whatever_it_is_doing() -> None:
    spec = running_job().spec.model_copy(update={"active_deadline_seconds": 60})
    job = running_job().model_copy(update={"spec": spec})
    assert not (decide(observe(job, receiver(), sender()), NOW + seconds(58)).status or job.status).is_true("Failed")
    plan = decide(observe(job, receiver(), sender()), NOW + seconds(60))
    assert condition_of(plan, "Failed") == ("True", "DeadlineExceeded")
    assert len(plan.deletes) == 2


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        (
            receiver(ready=False, phase=PodPhase.PENDING, waiting_reason="ImagePullBackOff", waiting_message="no x"),
            "ImagePullBackOff: no x",
        ),
        (receiver(ready=False, phase=PodPhase.PENDING), "its container has not become ready"),
        (receiver(verdict=make_failure("PeerLost", retry=True)), "PeerLost: attempt 1 failed: "),
    ],
)
def test_a_missed_deadline_says_what_held_the_movers_up(pod: MoverPod, told: str) -> None:
    job = after(observe(make_job(finalizer=True, activeDeadlineSeconds=60)))
    failed = written(decide(observe(job, pod), NOW + seconds(60))).condition("Failed")
    assert failed is not None and failed.reason == "DeadlineExceeded"
    before, _, after_that = failed.message.partition(HELD_UP)
    assert before == "the job did not end within activeDeadlineSeconds (60 s)"
    assert told in after_that


def test_a_missed_deadline_says_what_the_job_waited_for() -> None:
    started = make_job(finalizer=True, activeDeadlineSeconds=60, status=TransferJobStatus(start_time=NOW))
    failed = written(decide(observe(started, destination_writer="other"), NOW + seconds(60))).condition("Failed")
    assert failed is not None and f"{HELD_UP}DestinationInUse: destination.path: job other" in failed.message


def test_a_missed_deadline_of_a_job_that_runs_names_nothing_that_held_it_up() -> None:
    spec = running_job().spec.model_copy(update={"active_deadline_seconds": 60})
    plan = decide(observe(running_job().model_copy(update={"spec": spec}), receiver(), sender()), NOW + seconds(60))
    failed = written(plan).condition("Failed")
    assert failed is not None and HELD_UP not in failed.message


def test_success_that_arrives_with_the_deadline_is_success() -> None:
    spec = running_job().spec.model_copy(update={"active_deadline_seconds": 60})
    job = running_job().model_copy(update={"spec": spec})
    assert written(decide(observe(job, receiver(verdict=make_verdict())), NOW + seconds(60))).is_true("Succeeded")


def _with_limit(job: TransferJob, limit: str | None) -> TransferJob:
    bandwidth = None if limit is None else Bandwidth(limit=limit)
    return job.model_copy(update={"spec": job.spec.model_copy(update={"bandwidth": bandwidth})})


@pytest.mark.parametrize(("limit", "annotation"), [("2G", "2G"), ("1.5M", "1500k"), (None, None)])
def test_a_changed_limit_reaches_the_sender_once(limit: str | None, annotation: str | None) -> None:
    before = after(observe(_with_limit(running_job(), "100M"), receiver(), sender(egress_cap="100M")))
    plan = decide(observe(_with_limit(before, limit), receiver(), sender(egress_cap="100M")), NOW)
    assert plan.annotations == (AnnotatePod(sender().name, sender().uid, {ANNOTATION_EGRESS_BANDWIDTH: annotation}),)
    changed = observe(_with_limit(before, limit), receiver(), sender(egress_cap=annotation))
    for job in (changed.job, with_plan_applied(changed, plan).job):
        assert decide(replace(changed, job=job), NOW).annotations == ()


def test_a_cap_that_reached_the_pod_while_the_status_was_not_written_is_put_right() -> None:
    job = after(observe(_with_limit(running_job(), "20M"), receiver(), sender(egress_cap="20M")))
    drifted = observe(job, receiver(), sender(egress_cap="40M"))
    expected = (AnnotatePod(sender().name, sender().uid, {ANNOTATION_EGRESS_BANDWIDTH: "20M"}),)
    assert decide(drifted, NOW).annotations == expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(100e6 / 8, ("True", "WithinCap")), (104e6 / 8, ("True", "WithinCap")), (120e6 / 8, ("False", "AboveCap"))],
)
def test_the_cap_counts_as_enforced_only_if_the_measured_rate_keeps_to_it(rate: float, expected: tuple[str, str]) -> None:
    job = _with_limit(running_job(), "100M")
    plan = decide(observe(job, receiver(), sender(), reports=make_reports(make_progress(10, rate=rate))), NOW)
    assert condition_of(plan, "CapEnforced") == expected


@pytest.mark.parametrize(("rate_bps", "expected"), [(6.48e6, ("True", "WithinCap")), (9e6, ("False", "AboveCap"))])
def test_a_block_more_for_each_stream_in_the_measured_time_does_not_exceed_a_small_cap(rate_bps: float, expected: tuple[str, str]) -> None:
    progress = replace(make_progress(10, rate=rate_bps / 8), streams=4)
    plan = decide(observe(_with_limit(running_job(), "5M"), receiver(), sender(), reports=make_reports(progress)), NOW)
    assert condition_of(plan, "CapEnforced") == expected


def test_who_leads_anew_leaves_what_was_said_of_the_cap_until_it_has_asked_the_receiver() -> None:
    limited = _with_limit(running_job(), "100M")
    judged = after(observe(limited, receiver(), sender(egress_cap="100M"), reports=make_reports(make_progress(10, rate=100e6 / 8))))
    for reports, expected in ((Reports(), ("True", "WithinCap")), (Reports(receiver_unheard_seconds=40.0), ("Unknown", "CapNotMeasured"))):
        observed = observe(judged, receiver(), sender(egress_cap="100M"), reports=reports)
        condition = with_plan_applied(observed, decide(observed, NOW + seconds(60))).job.status.condition("CapEnforced")
        assert condition is not None
        assert (condition.status, condition.reason) == expected


def test_a_rate_above_the_cap_is_not_judged_while_a_job_that_keeps_to_it_could_cause_it() -> None:
    job = after(observe(_with_limit(running_job(), "20M"), receiver(), sender()))
    catching_up = CapExcess(Arrived(0.0, 10, 4), bits=60e6, allowed_bits=20e6 * CATCH_UP_SECONDS)
    reports = make_reports(make_progress(10, rate=26e6 / 8))
    for excess in (None, catching_up):
        plan = decide(observe(job, receiver(), sender(), reports=reports, excess=excess), NOW)
        assert condition_of(plan, "CapEnforced") == ("Unknown", "CapNotMeasured")
        bandwidth = written(plan).bandwidth
        assert bandwidth is not None
        assert bandwidth.enforced_by == "Pacing"


def test_a_retryable_reason_that_is_specific_beats_a_final_one_that_says_little() -> None:
    pods = receiver(verdict=make_failure("PeerFailed", retry=False)), sender(verdict=make_failure("SourceChanged", retry=True))
    status = written(decide(observe(running_job(), *pods), NOW))
    assert status.last_failure is not None
    assert status.last_failure.reason == "SourceChanged"
    assert not status.is_true("Failed")


def test_no_sender_is_sent_to_a_receiver_that_is_being_deleted() -> None:
    job = after(observe(make_job()))
    assert decide(observe(job, receiver(deleting=True), reports=make_reports()), NOW).creates == ()


def test_pods_that_are_being_deleted_are_not_deleted_again() -> None:
    spec = running_job().spec.model_copy(update={"suspend": True})
    job = running_job().model_copy(update={"spec": spec})
    plan = decide(observe(job, receiver(deleting=True), sender()), NOW)
    assert [delete.name for delete in plan.deletes] == [sender().name]


def test_a_sender_that_has_ended_is_not_told_of_a_new_limit() -> None:
    job = _with_limit(running_job(), "1G")
    assert decide(observe(job, receiver(), sender(verdict=make_verdict())), NOW).annotations == ()


def test_a_new_attempt_starts_its_account_afresh() -> None:
    moving = after(observe(running_job(), receiver(), sender(), reports=make_reports(make_progress(500), decided=True)))
    failed = receiver(verdict=make_failure("PeerLost", retry=True)), sender(verdict=make_failure("PeerLost", retry=True))
    job = after(observe(moving, *failed))
    assert job.status.progress is not None
    status = written(decide(observe(job, *failed), NOW + seconds(11)))
    assert status.progress is None
    assert not status.is_true("PathProbed")
    assert status.decision is not None


def test_a_live_switch_of_congestion_control_is_an_event_and_a_moving_stream_count_is_not() -> None:
    first = make_reports(make_progress(100), decided=True)
    assert first.decision is not None
    job = after(observe(running_job(), receiver(), sender(), reports=first))
    for change, events in (({"streams": 8}, []), ({"congestion_control": "bbr"}, ["TransportSwitched"])):
        reports = replace(first, decision=replace(first.decision, **change, message="BBR has come"))
        plan = decide(observe(job, receiver(), sender(), reports=reports), NOW + seconds(20))
        assert [event.reason for event in plan.events] == events
        condition = written(plan).condition("PathProbed")
        assert condition is not None
        assert "BBR has come" in (condition.message or "")


@pytest.mark.parametrize(
    ("reason", "why"), [("Unsure", "the safe default"), ("UserChoice", "the job asks for it"), ("Later", "the reason is Later")]
)
def test_the_event_of_a_decision_is_one_short_sentence_whatever_the_advisor_tells(reason: str, why: str) -> None:
    reports = make_reports(make_progress(100), decided=True)
    assert reports.decision is not None
    told = replace(reports, decision=replace(reports.decision, reason=reason, message="x" * 900))
    plan = decide(observe(running_job(), receiver(), sender(), reports=told), NOW)
    message = next(event.message for event in plan.events if event.reason == "PathProbed")
    assert message.startswith("cubic over 4 streams at an RTT of 60.2ms: ")
    assert why in message
    assert len(message) < 160


def test_a_failed_attempt_shows_how_far_it_came_and_no_rate_or_time_left() -> None:
    moving = after(observe(running_job(), receiver(), sender(), reports=make_reports(make_progress(100))))
    counts = {"bytes_total": 1000, "bytes_transferred": 450, "bytes_skipped": 300}
    failure = replace(make_failure("DestinationFull", retry=False), **counts)
    status = written(decide(observe(moving, receiver(verdict=failure), sender()), NOW + seconds(20)))
    assert status.phase == "Failed"
    assert status.progress is not None
    assert (status.progress.percent, status.progress.rate, status.progress.eta) == (75, None, None)


@pytest.mark.parametrize("ahead_seconds", [121, 3600])
def test_an_operator_whose_clock_is_ahead_of_the_api_server_s_fails_no_attempt_that_has_just_begun(ahead_seconds: float) -> None:
    created = NOW - seconds(ahead_seconds)
    begun = make_job(finalizer=True, status=TransferJobStatus(attempts=1, attempt_start_time=NOW))
    starting = observe(begun, receiver(ready=False, created_at=created))
    assert written(decide(starting, NOW + seconds(20))).failures is None
    assert written(decide(starting, NOW + seconds(121))).failures == 1


def test_a_success_is_not_withheld_where_the_receiver_s_node_has_a_clock_that_is_an_hour_ahead() -> None:
    ended = receiver(verdict=make_verdict(), ended_at=NOW + seconds(3600))
    assert written(decide(observe(running_job(), ended, sender()), NOW)).phase == "Succeeded"


def test_a_suspended_job_shows_no_rate_or_time_left() -> None:
    moving = after(observe(running_job(), receiver(), sender(), reports=make_reports(make_progress(500))))
    assert moving.status.progress is not None
    assert moving.status.progress.eta is not None
    job = moving.model_copy(update={"spec": moving.spec.model_copy(update={"suspend": True})})
    progress = written(decide(observe(job, receiver(), sender()), NOW + seconds(1))).progress
    assert progress is not None
    assert (progress.percent, progress.rate, progress.eta) == (50, None, None)


def test_what_one_pod_reported_is_not_ascribed_to_the_next() -> None:
    job = after(observe(make_job(finalizer=True), receiver(), reports=make_reports()))
    second = after(observe(job, receiver(attempt=2)))
    for status, interface in ((job.status, "data0"), (second.status, None)):
        assert status.endpoints is not None
        assert status.endpoints.destination is not None
        assert status.endpoints.destination.interface == interface


def test_a_refused_creation_is_reported_in_the_servers_words_and_tried_again() -> None:
    refused = observe(make_job(), refusal="pods is forbidden: exceeded quota")
    plan = decide(refused, NOW)
    assert plan.creates == plan.credentials == ()
    assert condition_of(plan, "MoversReady") == ("False", "CreationRefused")
    assert written(plan).is_true("Stalled")
    assert "MoversNotReady" in [event.reason for event in plan.events]
    assert plan.requeue_after is not None
    known = with_plan_applied(refused, plan)
    assert decide(known, NOW).status is None
    again = decide(replace(known, refusal=""), NOW)
    assert [create.role for create in again.creates] == [Role.RECEIVER]


def test_a_receiver_whose_sender_is_refused_goes_and_no_failure_counts() -> None:
    job = after(observe(make_job(finalizer=True), receiver()))
    refused = observe(job, receiver(), reports=make_reports(), refusal="exceeded quota: pods=2")
    assert [create.role for create in decide(replace(refused, refusal=""), NOW).creates] == [Role.SENDER]
    plan = decide(refused, NOW)
    status = written(plan)
    assert (plan.creates, [delete.uid for delete in plan.deletes]) == ((), [receiver().uid])
    assert (status.attempts, status.attempt_start_time, status.failures) == (1, None, None)
    assert status.last_failure is not None
    assert status.last_failure.reason == "CreationRefused"
    assert "exceeded quota: pods=2" in status.last_failure.message
    gone = observe(job.model_copy(update={"status": status}))
    assert decide(gone, NOW + seconds(5)).creates == ()
    (create,) = decide(gone, NOW + seconds(60)).creates
    assert (create.role, create.attempt) == (Role.RECEIVER, 2)


def test_jobs_whose_senders_were_refused_together_do_not_begin_again_together() -> None:
    job = after(observe(make_job(finalizer=True), receiver()))
    pauses = set()
    for number in range(8):
        metadata = job.metadata.model_copy(update={"uid": f"{number}"})
        refused = observe(job.model_copy(update={"metadata": metadata}), receiver(), reports=make_reports(), refusal="quota")
        ready = written(decide(refused, NOW)).condition("MoversReady")
        assert ready is not None
        pauses.add(ready.message)
    assert len(pauses) > 1, pauses


def test_a_refusal_that_concerns_nothing_any_more_is_forgotten() -> None:
    assert decide(observe(running_job(), receiver(), sender(), refusal="quota"), NOW).status is None


@pytest.mark.parametrize(
    ("pod", "other", "named"),
    [(receiver, (), "destination.attachment lab-b"), (sender, (receiver(),), "source.attachment lab-a")],
    ids=["receiver", "sender"],
)
@pytest.mark.parametrize(
    ("reason", "retry"), [("InterfaceNotFound", False), ("AddressInUse", True)], ids=["no interface", "link-local only"]
)
def test_a_mover_without_its_attachment_fails_with_the_field_and_where_to_look(
    pod: Callable[..., MoverPod], other: tuple[MoverPod, ...], named: str, reason: str, retry: bool
) -> None:
    status = written(decide(observe(make_attached_job(), *other, pod(verdict=make_failure(reason, retry=retry))), NOW))
    assert status.last_failure is not None
    assert status.last_failure.reason == reason
    said = status.last_failure.message
    assert f"because {reason}" in said
    assert named in said
    assert f"NetworkAttachmentDefinition {named.split()[1]} is in namespace science" in said
    assert ("create the job again" in said) is not retry
    assert status.is_true("Failed") is not retry


def test_an_attachment_over_an_interface_that_is_down_is_named_with_the_node() -> None:
    down = make_failure("InterfaceDown", retry=True)
    status = written(decide(observe(make_attached_job(), receiver(verdict=down)), NOW))
    assert status.last_failure is not None
    assert status.last_failure.message == (
        "receiver: because InterfaceDown; destination.attachment lab-b: an administrator sets up the interface of node dtn-b on which the"
        " config of NetworkAttachmentDefinition lab-b puts it"
    )
    on_host = written(decide(observe(make_job(), receiver(verdict=down)), NOW)).last_failure
    assert on_host is not None
    assert on_host.message == "receiver: because InterfaceDown"


def test_other_failures_and_other_networks_are_not_put_down_to_an_attachment() -> None:
    for job, reason in (
        (make_attached_job(), "DestinationFull"),
        (make_job(), "InterfaceNotFound"),
        (make_job(network="Pod"), "AddressInUse"),
    ):
        failure = written(decide(observe(job, receiver(verdict=make_failure(reason, retry=False))), NOW)).last_failure
        assert failure is not None
        assert failure.message == f"receiver: because {reason}"


def test_a_pod_that_stays_without_network_is_told_to_be_described_with_its_attachment() -> None:
    silent = {"ready": False, "phase": PodPhase.PENDING, "created_at": NOW}
    job = after(observe(make_attached_job()))
    plan = decide(observe(job, receiver(**silent)), NOW + SETTINGS.startup_timeout)
    failure = written(plan).last_failure
    assert failure is not None
    assert failure.reason == "ReceiverNotReady"
    assert f"if Multus cannot attach destination.attachment lab-b, `kubectl describe pod {receiver().name}` says why" in failure.message
    held = receiver(**silent, waiting_reason="ErrImageNeverPull", waiting_message="image is not present")
    spoken = written(decide(observe(job, held), NOW)).condition("MoversReady")
    assert spoken is not None
    assert "Multus" not in spoken.message


def test_while_its_movers_run_a_job_has_a_pass_after_each_poll_and_none_by_the_clock() -> None:
    up = running_job()
    assert decide(observe(up, receiver(), sender(), reports=make_reports(make_progress(10))), NOW).requeue_after is None
    placed = (receiver(phase=PodPhase.PENDING, address=None), sender(phase=PodPhase.PENDING, address=None))
    assert decide(observe(up, *placed), NOW).requeue_after == SETTINGS.poll_interval
