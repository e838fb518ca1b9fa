"""What keeps a job from being started, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
from job_builders import NOW, make_job, observe, receiver, sender, with_plan_applied

from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.identities import Identities
from fairlead.core.lifecycle import decide
from fairlead.core.observed import ClaimFacts, NodeFacts, Role
from fairlead.core.plan import Plan
from fairlead.core.settings import OperatorSettings

FOREIGN = OperatorSettings(
    host_network_namespaces=frozenset({"*"}), identities=Identities.from_object({"default": {"users": ["10000-10999"]}})
)
HERE = NodeFacts(exists=True, ready=True)
AWAY = NodeFacts(exists=False)
DOWN = NodeFacts(exists=True, ready=False)
THERE = ClaimFacts(exists=True, bound=True)
MISSING = ClaimFacts(exists=False)


def status_of(plan: Plan) -> TransferJobStatus:
    assert plan.status is not None
    return plan.status


def reason_of(status: TransferJobStatus, kind: str, value: str) -> str | None:
    condition = status.condition(kind)
    return condition.reason if condition and condition.status == value else None


def test_a_job_of_another_manager_is_left_alone() -> None:
    assert decide(observe(make_job(managedBy="example.com/other")), NOW) == Plan()


WAITS: dict[str, tuple[dict[str, Any], str, str, str, bool]] = {
    "namespace without the right": ({"settings": OperatorSettings()}, "Accepted", "HostNetworkNotAllowed", "hostNetwork.namespaces", True),
    "user outside the namespace's range": (
        {"settings": FOREIGN},
        "Accepted",
        "IdentityNotAllowed",
        "securityContext.runAsUser is 65532, and allowed is 10000-10999 in namespace science",
        True,
    ),
    "source claim missing": ({"claims": {"raw": MISSING, "scratch": THERE}}, "Accepted", "ClaimNotFound", "source.volume", False),
    "destination claim missing": ({"claims": {"raw": THERE, "scratch": MISSING}}, "Accepted", "ClaimNotFound", "scratch", False),
    "claim on another node": (
        {"claims": {"raw": ClaimFacts(exists=True, bound=True, node="dtn-c")}},
        "Accepted",
        "ClaimOnOtherNode",
        "dtn-c",
        True,
    ),
    "destination in use": ({"destination_writer": "other"}, "Scheduled", "DestinationInUse", "job other writes", False),
    "node not ready": ({"nodes": {"dtn-a": HERE, "dtn-b": DOWN}}, "Scheduled", "NodeNotReady", "destination.node", False),
}


@pytest.mark.parametrize(("facts", "kind", "reason", "mention", "stalled"), WAITS.values(), ids=WAITS.keys())
def test_waits_and_says_why(facts: dict[str, Any], kind: str, reason: str, mention: str, stalled: bool) -> None:
    plan = decide(observe(make_job(), **facts), NOW)
    status = status_of(plan)
    assert reason_of(status, kind, "False") == reason
    condition = status.condition(kind)
    assert condition is not None
    assert mention in condition.message
    assert status.is_true("Stalled") is stalled
    assert status.phase == "Pending"
    assert plan.creates == ()
    assert plan.finalizer is None
    assert plan.requeue_after is not None


@pytest.mark.parametrize("facts", [facts for facts, *_ in WAITS.values()], ids=WAITS.keys())
def test_goes_on_once_the_obstacle_is_gone(facts: dict[str, Any]) -> None:
    waiting = observe(make_job(), **facts)
    job = with_plan_applied(waiting, decide(waiting, NOW)).job
    plan = decide(observe(job), NOW)
    assert [create.role for create in plan.creates] == [Role.RECEIVER]
    assert status_of(plan).is_true("Accepted")
    assert not status_of(plan).is_true("Stalled")


@pytest.mark.parametrize("status", [{"attempts": 1}, {}], ids=["between two attempts", "before its first one"])
def test_a_job_that_was_accepted_waits_for_its_node_to_be_back(status: dict[str, Any]) -> None:
    waiting = observe(make_job(), nodes={"dtn-a": HERE, "dtn-b": DOWN})
    job = with_plan_applied(waiting, decide(waiting, NOW)).job
    job = job.model_copy(update={"status": job.status.model_copy(update=status)})
    gone = observe(job, nodes={"dtn-a": HERE, "dtn-b": AWAY})
    plan = decide(gone, NOW)
    assert not status_of(plan).finished
    assert reason_of(status_of(plan), "Scheduled", "False") == "NodeNotReady"
    scheduled = status_of(plan).condition("Scheduled")
    assert scheduled is not None
    assert "destination.node: node dtn-b is not in the cluster any more" in scheduled.message
    back = observe(with_plan_applied(gone, plan).job)
    assert [create.role for create in decide(back, NOW).creates] == [Role.RECEIVER]


@pytest.mark.parametrize(
    "missing",
    [{"claims": {"raw": THERE, "scratch": MISSING}}, {"settings": OperatorSettings()}],
    ids=["its claim", "its permission"],
)
def test_a_job_that_waits_for_more_than_its_node_does_not_fail_for_the_node(missing: dict[str, Any]) -> None:
    accepted = observe(make_job(), nodes={"dtn-a": HERE, "dtn-b": DOWN})
    gone = {"dtn-a": HERE, "dtn-b": AWAY}
    both = observe(with_plan_applied(accepted, decide(accepted, NOW)).job, nodes=gone, **missing)
    refused = with_plan_applied(both, decide(both, NOW))
    assert not refused.job.status.is_true("Accepted")
    repeated = with_plan_applied(refused, decide(refused, NOW))
    assert repeated.job.status == refused.job.status
    status = status_of(decide(observe(repeated.job, nodes=gone), NOW))
    assert status.is_true("Accepted")
    assert reason_of(status, "Scheduled", "False") == "NodeNotReady"


TERMINAL: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "source node unknown": ({}, {"nodes": {"dtn-a": AWAY}}, "NodeNotFound", "source.node"),
    "destination node unknown": ({}, {"nodes": {"dtn-b": AWAY}}, "NodeNotFound", "dtn-b"),
    "path leaves the volume": (
        {"source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a/../.."}},
        {},
        "InvalidSpec",
        "source.path",
    ),
    "an end without attachment": (
        {"network": "Attachment", "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "attachment": "lab-a"}},
        {},
        "InvalidSpec",
        "destination.attachment",
    ),
    "an address that cannot be": (
        {
            "network": "Attachment",
            "source": {
                "volume": {"persistentVolumeClaim": {"claimName": "raw"}},
                "attachment": "lab-a",
                "attachmentAddresses": ["198.18.1.300/24"],
            },
            "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "attachment": "lab-b"},
        },
        {},
        "InvalidSpec",
        "source.attachmentAddresses: 198.18.1.300/24",
    ),
    "destination inside the source": (
        {
            "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a"},
            "destination": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "a/b"},
        },
        {},
        "SameDirectory",
        "claimName",
    ),
}


@pytest.mark.parametrize(("spec", "facts", "reason", "mention"), TERMINAL.values(), ids=TERMINAL.keys())
def test_fails_at_once_where_waiting_cannot_help(spec: dict[str, Any], facts: dict[str, Any], reason: str, mention: str) -> None:
    plan = decide(observe(make_job(**spec), **facts), NOW)
    status = status_of(plan)
    assert reason_of(status, "Failed", "True") == reason
    assert reason_of(status, "Succeeded", "False") == reason
    failed = status.condition("Failed")
    assert failed is not None
    assert mention in failed.message
    assert status.phase == "Failed"
    assert status.completion_time == NOW
    assert [event.reason for event in plan.events] == ["Failed"]
    assert plan.creates == ()


def test_directories_that_only_begin_alike_are_different() -> None:
    side = {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}}
    plan = decide(observe(make_job(source={**side, "path": "run4"}, destination={**side, "path": "run42"})), NOW)
    assert len(plan.creates) == 1


def test_withdrawing_the_namespaces_right_stops_an_attempt_under_way_without_counting_it() -> None:
    running = observe(make_job(finalizer=True), receiver(), sender())
    job = with_plan_applied(running, decide(running, NOW)).job
    plan = decide(observe(job, receiver(), sender(), settings=OperatorSettings()), NOW)
    assert {delete.name for delete in plan.deletes} == {receiver().name, sender().name}
    assert status_of(plan).attempt_start_time is None
    assert status_of(plan).failures is None
    assert [event.reason for event in plan.events] == ["NotAccepted"]


def test_a_node_that_blinks_does_not_stop_an_attempt_under_way() -> None:
    running = observe(make_job(finalizer=True), receiver(), sender(), nodes={"dtn-a": DOWN})
    assert decide(running, NOW).deletes == ()


def test_a_suspended_job_is_not_examined_before_it_may_run() -> None:
    status = status_of(decide(observe(make_job(suspend=True), nodes={"dtn-a": AWAY}), NOW))
    assert status.phase == "Suspended"
    assert not status.is_true("Failed")


def test_a_job_whose_user_is_no_longer_allowed_is_stopped() -> None:
    job = with_plan_applied(observe(make_job()), decide(observe(make_job()), NOW)).job
    plan = decide(observe(job, receiver(), sender(), settings=FOREIGN), NOW)
    assert {delete.name for delete in plan.deletes} == {receiver().name, sender().name}
    assert plan.creates == ()
    assert reason_of(status_of(plan), "Accepted", "False") == "IdentityNotAllowed"
