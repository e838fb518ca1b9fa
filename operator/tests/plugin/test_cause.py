"""From the objects to the cause, by tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.facts import Facts, JobEvent
from fairlead.core.lifecycle.machine import HELD_UP
from fairlead.plugin.why.cause import JobStanding, cause_of, lesser_troubles
from fairlead.plugin.why.evidence import JobEvidence, PodTrouble

NOW = datetime(2026, 1, 2, 3, 10, 0, tzinfo=UTC)
SINCE = "2026-01-02T03:05:00Z"


def condition(kind: str, status: str, reason: str, message: str = "as it is") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def job(
    *conditions: dict[str, Any],
    created: str = SINCE,
    deleted: str | None = None,
    finalizers: tuple[str, ...] = (),
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> TransferJob:
    metadata = {"name": "run42", "namespace": "bio", "uid": "uid-1", "generation": 1, "creationTimestamp": created}
    more = {"finalizers": list(finalizers), "labels": labels or {}, **({"deletionTimestamp": deleted} if deleted else {})}
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
    }
    said = {"observedGeneration": 1, "conditions": list(conditions), **(status or {})} if conditions else {}
    return TransferJob.from_object({"metadata": {**metadata, **more}, "spec": {**ends, **spec}, "status": said})


FAILED = condition("Failed", "True", "BackoffLimitExceeded", "7 attempts failed")
DEADLINE = condition("Failed", "True", "DeadlineExceeded", "the job did not end within activeDeadlineSeconds (60 s)")
UP = condition("MoversReady", "True", "MoversRunning")
DOWN = condition("MoversReady", "False", "ReceiverNotReady", "receiver pod p is not ready: ContainerCreating")


def last(reason: str, message: str) -> dict[str, Any]:
    return {"lastFailure": {"attempt": 7, "reason": reason, "message": message, "time": SINCE}, "failures": 7}


def progress(quiet_seconds: int, rate: str) -> dict[str, Any]:
    moved = (NOW - timedelta(seconds=quiet_seconds)).isoformat()
    return {"progress": {"bytesTotal": 10**9, "bytesTransferred": 10**8, "percent": 10, "rate": rate, "lastProgressTime": moved}}


def begun(**ago: int) -> dict[str, Any]:
    return {"attemptStartTime": (NOW - timedelta(**ago)).isoformat()}


@pytest.mark.parametrize(
    ("given", "state", "reasons"),
    [
        (job(managedBy="example.com/other"), JobStanding.NOT_SERVED, ["OtherController"]),
        (job(), JobStanding.NOT_SERVED, ["NotTakenUp"]),
        (job(created="2026-01-02T03:09:58Z"), JobStanding.WAITING, ["NotTakenUp"]),
        (job(FAILED, status=last("PeerUnreachable", "sender: no route")), JobStanding.FAILED, ["BackoffLimitExceeded", "PeerUnreachable"]),
        (
            job(FAILED, status=last("MoverDied", "sender pod p ended with exit code 137 and without a verdict (OOMKilled)")),
            JobStanding.FAILED,
            ["BackoffLimitExceeded", "MoverDied", "OOMKilled"],
        ),
        (
            job(FAILED, status=last("MoverDied", "sender pod p was lost with its node dtn-a")),
            JobStanding.FAILED,
            ["BackoffLimitExceeded", "MoverDied", "NodeLost"],
        ),
        (job(DEADLINE, condition("Scheduled", "False", "WaitingForLink")), JobStanding.FAILED, ["DeadlineExceeded", "WaitingForLink"]),
        (job(DEADLINE, status=last("PeerLost", "it broke")), JobStanding.FAILED, ["DeadlineExceeded", "PeerLost"]),
        (job(DEADLINE, status=progress(0, "8M")), JobStanding.FAILED, ["DeadlineExceeded", "SlowTransfer"]),
        (
            job(condition("Suspended", "True", "QueueNeedsBandwidth"), labels={"kueue.x-k8s.io/queue-name": "bulk"}, suspend=True),
            JobStanding.BLOCKED,
            ["QueueNeedsBandwidth"],
        ),
        (job(DEADLINE), JobStanding.FAILED, ["DeadlineExceeded"]),
        (job(condition("Suspended", "True", "Suspended")), JobStanding.SUSPENDED, ["Suspended"]),
        (
            job(condition("Suspended", "True", "Suspended"), labels={"kueue.x-k8s.io/queue-name": "bulk"}),
            JobStanding.SUSPENDED,
            ["Suspended", "QueuedByKueue"],
        ),
        (
            job(condition("Stalled", "True", "ClaimOnOtherNode"), condition("Accepted", "False", "ClaimOnOtherNode")),
            JobStanding.BLOCKED,
            ["ClaimOnOtherNode"],
        ),
        (job(condition("Accepted", "False", "ClaimNotFound")), JobStanding.WAITING, ["ClaimNotFound"]),
        (
            job(condition("Scheduled", "False", "WaitingForScheduler", "receiver pod p: Unschedulable: 0/3 nodes")),
            JobStanding.WAITING,
            ["WaitingForScheduler", "Unschedulable"],
        ),
        (
            job(
                condition("MoversReady", "False", "MoversStarting", "waiting for pod p of the attempt before to be gone: its node n is not")
            ),
            JobStanding.WAITING,
            ["MoversStarting", "PodOfLostNode"],
        ),
        (job(DOWN), JobStanding.STARTING, ["ReceiverNotReady"]),
        (job(UP, condition("PathProbed", "False", "Probing")), JobStanding.RUNNING, ["Probing"]),
        (job(UP, status=progress(30, "80M")), JobStanding.RUNNING, ["NoCap"]),
        (job(UP, status=progress(40, "80M")), JobStanding.TROUBLED, ["NoProgress"]),
        (job(UP, status=progress(40, "4M")), JobStanding.RUNNING, ["NoCap"]),
        (job(UP, status=progress(600, "80M") | begun(hours=5)), JobStanding.RUNNING, ["NoCap"]),
        (job(UP, status=progress(730, "80M") | begun(hours=5)), JobStanding.TROUBLED, ["NoProgress"]),
        (job(UP, status=progress(40, "80M") | begun(minutes=2)), JobStanding.RUNNING, ["NoCap"]),
        (job(UP, status=progress(45, "80M") | begun(minutes=2)), JobStanding.TROUBLED, ["NoProgress"]),
        (job(UP, status=progress(40, "0")), JobStanding.TROUBLED, ["NoProgress"]),
        (
            job(UP, condition("PreflightPassed", "True", "PassedWithWarnings", "source: EchoUnreachable: UDP is blocked")),
            JobStanding.TROUBLED,
            ["PassedWithWarnings", "EchoUnreachable"],
        ),
        (job(UP, deleted="2026-01-02T03:09:50Z", finalizers=("example.com/keep",)), JobStanding.DELETING, ["Deleting", "OtherFinalizer"]),
        (job(UP, deleted="2026-01-02T03:09:50Z", finalizers=("fairlead.io/partial-files",)), JobStanding.DELETING, ["DeletionNotAnswered"]),
    ],
)
def test_the_last_reason_is_the_cause_and_those_before_say_what_it_led_to(
    given: TransferJob, state: JobStanding, reasons: list[str]
) -> None:
    cause = cause_of(JobEvidence(Facts(given)), NOW)
    assert (cause.state, list(cause.reasons)) == (state, reasons)


def test_a_pods_own_trouble_is_the_cause_of_a_mover_that_does_not_come_up() -> None:
    troubles = (
        PodTrouble("p", "receiver", "ContainerCreating", ""),
        PodTrouble("p", "receiver", "FailedMount", "no such folder"),
    )
    cause = cause_of(JobEvidence(Facts(job(DOWN)), troubles), NOW)
    assert list(cause.reasons) == ["ReceiverNotReady", "FailedMount"]
    assert (cause.message, cause.end) == ("receiver pod p: FailedMount: no such folder", "destination")


@pytest.mark.parametrize(
    ("held_up", "reasons"),
    [
        ("ReceiverNotReady: receiver pod p is not ready: ImagePullBackOff: no x", ["ReceiverNotReady", "ImagePullBackOff"]),
        ("PeerLost: attempt 1 failed: it broke", ["PeerLost"]),
    ],
)
def test_what_held_a_job_up_until_its_deadline_is_read_from_its_message(held_up: str, reasons: list[str]) -> None:
    told = condition("Failed", "True", "DeadlineExceeded", f"{DEADLINE['message']}{HELD_UP}{held_up}")
    cause = cause_of(JobEvidence(Facts(job(told, status=last("Stalled", "of an earlier attempt")))), NOW)
    assert (list(cause.reasons), cause.message) == (["DeadlineExceeded", *reasons], held_up.partition(": ")[2])


def test_movers_that_did_not_come_up_before_the_deadline_are_its_cause() -> None:
    late = JobEvent(time=NOW, type="Warning", reason="MoversNotReady", message="sender pod p is not ready: ErrImagePull: no such image")
    assert list(cause_of(JobEvidence(Facts(job(DEADLINE), (late,))), NOW).reasons) == ["DeadlineExceeded", "SenderNotReady", "ErrImagePull"]
    up = JobEvent(time=NOW, reason="MoversStarted", message="up")
    assert list(cause_of(JobEvidence(Facts(job(DEADLINE), (late, up))), NOW).reasons) == ["DeadlineExceeded"]


def test_an_administrator_is_told_that_the_operator_is_what_is_missing() -> None:
    for operator, reason in (("Missing", "OperatorMissing"), ("NotRunning", "OperatorNotRunning")):
        evidence = JobEvidence(Facts(job()), operator=operator, operator_message="has 0 of 1")  # type: ignore[arg-type]
        assert list(cause_of(evidence, NOW).reasons) == ["NotTakenUp", reason]
    assert list(cause_of(JobEvidence(Facts(job()), operator="Running"), NOW).reasons) == ["NotTakenUp"]


def test_a_spec_that_nobody_answers_is_the_operators_silence_once_it_has_lasted() -> None:
    accepted = job(condition("Accepted", "False", "ClaimNotFound"))
    for seconds, reason in ((60, "SpecNotAnswered"), (1, "ClaimNotFound")):
        assert cause_of(JobEvidence(Facts(accepted), spec_changed_at=NOW - timedelta(seconds=seconds)), NOW).reason == reason


def test_lesser_troubles_of_a_running_job_are_told_beside_the_first() -> None:
    given = job(UP, condition("CapEnforced", "False", "AboveCap"), condition("PathProbed", "True", "AdvisorSilent"))
    evidence = JobEvidence(Facts(given))
    assert cause_of(evidence, NOW).reason == "AboveCap"
    assert [each.reason for each in lesser_troubles(evidence, NOW)] == ["AdvisorSilent"]
    assert lesser_troubles(JobEvidence(Facts(job(FAILED))), NOW) == ()
