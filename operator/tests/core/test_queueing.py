"""What is due for a job in a queue of Kueue, by what the job and its Workload show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_builders import NOW, SETTINGS, make_job, make_verdict, observe, receiver, with_plan_applied

from fairlead.api.transferjob import TransferJob
from fairlead.core.lifecycle import decide
from fairlead.core.queueing import BANDWIDTH, QUEUE_LABEL, QueueStep, WorkloadFacts, ended, facts_of, is_queued, rate_of, released, step_of
from fairlead.core.queueing import workload_of as made_for

ADMITTED = WorkloadFacts(admitted=True, holds_quota=True)
EVICTED = WorkloadFacts(admitted=True, holds_quota=True, evicted=True)
RELEASED = WorkloadFacts(evicted=True)
INACTIVE = WorkloadFacts(admitted=True, holds_quota=True, active=False)
STOPPED = with_plan_applied(observe(make_job(suspend=True)), decide(observe(make_job(suspend=True)), NOW)).job
STOPPING = make_job(suspend=True)
FREE = make_job()
_ENDED = observe(make_job(finalizer=True), receiver(verdict=make_verdict()))
SUCCEEDED = with_plan_applied(_ENDED, decide(_ENDED, NOW)).job


@pytest.mark.parametrize(
    ("job", "workload", "expected"),
    [
        (FREE, None, QueueStep.SUSPEND),
        (STOPPING, None, QueueStep.NOTHING),
        (STOPPED, None, QueueStep.CREATE),
        (STOPPED, WorkloadFacts(), QueueStep.NOTHING),
        (FREE, WorkloadFacts(), QueueStep.SUSPEND),
        (STOPPED, ADMITTED, QueueStep.RESUME),
        (FREE, ADMITTED, QueueStep.NOTHING),
        (FREE, EVICTED, QueueStep.SUSPEND),
        (STOPPING, EVICTED, QueueStep.NOTHING),
        (STOPPED, EVICTED, QueueStep.RELEASE),
        (STOPPED, RELEASED, QueueStep.NOTHING),
        (FREE, INACTIVE, QueueStep.SUSPEND),
        (SUCCEEDED, ADMITTED, QueueStep.FINISH),
        (SUCCEEDED, WorkloadFacts(finished=True), QueueStep.NOTHING),
        (SUCCEEDED, None, QueueStep.NOTHING),
    ],
)
def test_bandwidth_is_asked_for_held_and_given_back_only_while_no_mover_uses_it(
    job: TransferJob, workload: WorkloadFacts | None, expected: QueueStep
) -> None:
    assert step_of(job, workload) is expected


def _queued(**spec: object) -> TransferJob:
    job = make_job(**spec)
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"labels": {QUEUE_LABEL: "bulk"}})})


@pytest.mark.parametrize(
    ("kueue", "spec", "reason"),
    [
        (True, {}, "QueueNeedsBandwidth"),
        (True, {"bandwidth": {"limit": "1M"}}, "Suspended"),
        (True, {"bandwidth": {"guarantee": "1M"}}, "Suspended"),
        (False, {}, "Suspended"),
    ],
)
def test_a_queued_job_without_a_bandwidth_is_told_what_to_set(kueue: bool, spec: dict[str, object], reason: str) -> None:
    plan = decide(observe(_queued(suspend=True, **spec), settings=replace(SETTINGS, kueue=kueue)), NOW)
    assert plan.status is not None
    suspended, needs_it = plan.status.condition("Suspended"), reason == "QueueNeedsBandwidth"
    assert suspended is not None and (suspended.status, suspended.reason) == ("True", reason)
    assert ("set bandwidth.limit or bandwidth.guarantee" in suspended.message) is needs_it
    assert plan.status.is_true("Stalled") is needs_it
    assert [event.reason for event in plan.events if event.warning] == (["QueueNeedsBandwidth"] if needs_it else [])


def test_only_a_job_with_a_queue_is_queued() -> None:
    assert is_queued(_queued())
    assert not is_queued(make_job())
    assert not is_queued(_queued(managedBy="example.com/other"))


@pytest.mark.parametrize(
    ("bandwidth", "rate"),
    [(None, None), ({"limit": "600M"}, "600M"), ({"guarantee": "200M"}, "200M"), ({"limit": "1G", "guarantee": "200M"}, "1G"), ({}, None)],
)
def test_a_job_asks_for_its_limit_or_what_it_is_guaranteed(bandwidth: dict[str, str] | None, rate: str | None) -> None:
    assert rate_of(_queued(**({} if bandwidth is None else {"bandwidth": bandwidth}))) == rate


def test_the_workload_belongs_to_the_job_and_asks_for_bandwidth_alone() -> None:
    job = _queued(priority=7)
    workload = made_for(job, "600M")
    assert (workload["spec"]["queueName"], workload["spec"]["priority"]) == ("bulk", 7)
    assert workload["metadata"]["ownerReferences"][0]["uid"] == job.metadata.uid
    ((container,),) = (each["template"]["spec"]["containers"] for each in workload["spec"]["podSets"])
    assert container["resources"]["requests"] == {BANDWIDTH: "600M"}


def test_what_others_say_of_a_workload_is_kept_when_it_gives_back_its_bandwidth() -> None:
    before = [{"type": kind, "status": "True"} for kind in ("Admitted", "QuotaReserved", "Evicted", "Preempted")]
    after = released(before, "2026-01-02T03:04:05Z")
    facts = facts_of({"status": {"conditions": after, "admission": None}})
    assert facts == RELEASED
    assert {each["type"] for each in after} == {"Admitted", "QuotaReserved", "Evicted", "Preempted", "Requeued"}


def test_kueue_is_told_how_a_job_ended() -> None:
    (condition,) = ended([], SUCCEEDED, "2026-01-02T03:04:05Z")
    assert (condition["type"], condition["status"], condition["reason"]) == ("Finished", "True", "Succeeded")
