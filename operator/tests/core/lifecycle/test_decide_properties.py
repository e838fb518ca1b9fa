"""What holds for every state a job can be in, however it came there."""

from __future__ import annotations

import ast
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from job_builders import (
    LASTING_STAGES,
    NOW,
    SETTINGS,
    UID,
    make_job,
    make_pod,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    seconds,
    with_plan_applied,
)

import fairlead.core
from fairlead.api import names
from fairlead.api.reasons import ConditionType, EventReason, MoverReason, Reason
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.lifecycle import decide
from fairlead.core.lifecycle.events import LONGEST_EVENT
from fairlead.core.observed import ClaimFacts, MoverPod, NodeFacts, Observed, PodPhase, Role, running_movers
from fairlead.core.plan import EmitEvent
from fairlead.core.settings import OperatorSettings
from fairlead.core.verdicts import has_ended

often = hypothesis_settings(max_examples=int(os.environ.get("FAIRLEAD_EXAMPLES", "80")))
KNOWN_REASONS = {member.value for kind in (Reason, MoverReason) for member in kind}

texts = st.sampled_from(["because", "", "line one\nline two\r\n", "the disk is full; " * 56, "x" * 1024, "a b\u2028c " * 170])
"""What somebody else says, as long as it is taken."""

verdicts = st.builds(
    make_verdict,
    st.sampled_from(["Succeeded", "Failed", "Stopped"]),
    st.sampled_from([reason.value for reason in MoverReason]),
    retry=st.booleans(),
    attempt=st.integers(1, 3),
    job=st.sampled_from([UID, UID, UID, "another"]),
    message=texts,
)


@st.composite
def pods(draw: st.DrawFn) -> tuple[MoverPod, ...]:
    keys = draw(st.lists(st.tuples(st.sampled_from(list(Role)), st.integers(1, 3)), unique=True, max_size=5))
    return tuple(_pod(draw, role, attempt) for role, attempt in keys)


def _pod(draw: st.DrawFn, role: Role, attempt: int) -> MoverPod:
    fields: dict[str, Any] = {
        "created_at": NOW - seconds(draw(st.integers(0, 400))),
        "deleting": draw(st.booleans()),
        "node": draw(st.sampled_from([None, "dtn-a", "dtn-b"])),
        "waiting_reason": draw(st.sampled_from(["", "ErrImageNeverPull"])),
    }
    kind = draw(st.sampled_from(["pending", "up", "died", "spoke"]))
    if kind == "pending":
        fields |= {"phase": PodPhase.PENDING, "ready": False}
    elif kind == "died":
        fields |= {"phase": PodPhase.FAILED, "ready": False, "exit_code": 137}
    elif kind == "spoke":
        fields["verdict"] = draw(verdicts)
    return make_pod(role, attempt=attempt, **fields)


@st.composite
def worlds(draw: st.DrawFn) -> Observed:
    job = make_job(
        finalizer=draw(st.booleans()),
        suspend=draw(st.booleans()),
        deleted_at=draw(st.sampled_from([None, None, None, NOW - seconds(10), NOW - seconds(1000)])),
        backoffLimit=draw(st.integers(0, 2)),
        activeDeadlineSeconds=draw(st.sampled_from([None, 5, 500])),
        ttlSecondsAfterFinished=draw(st.sampled_from([None, 0, 100])),
        bandwidth=draw(st.sampled_from([None, {}, {"limit": "100M"}])),
    )
    progress = draw(
        st.none() | st.builds(make_progress, st.integers(0, 1000), st.sampled_from([None, 1000]), rate=st.sampled_from([0.0, 1e7, 2e7]))
    )
    return observe(
        job,
        *draw(pods()),
        reports=draw(st.sampled_from([None, make_reports(progress), make_reports(progress, decided=True)])),
        nodes=draw(st.sampled_from([{}, {"dtn-a": NodeFacts(exists=False)}, {"dtn-b": NodeFacts(exists=True, ready=False)}])),
        claims=draw(st.sampled_from([{}, {"scratch": ClaimFacts(exists=False)}, {"raw": ClaimFacts(exists=True, node="dtn-a")}])),
        settings=draw(st.sampled_from([SETTINGS, LASTING_STAGES, OperatorSettings()])),
        refusal=draw(st.just("") | texts),
    )


@st.composite
def histories(draw: st.DrawFn) -> Observed:
    """A world whose status was written by up to three passes over other worlds before it."""
    world = draw(worlds())
    for other in draw(st.lists(worlds(), max_size=3)):
        earlier = replace(other, job=other.job.model_copy(update={"status": world.job.status}))
        status = with_plan_applied(earlier, decide(earlier, NOW - seconds(draw(st.integers(0, 30))))).job.status
        world = replace(world, job=world.job.model_copy(update={"status": status}))
    return world


def status_after(world: Observed) -> TransferJobStatus:
    return with_plan_applied(world, decide(world, NOW)).job.status


@given(histories())
@often
def test_what_is_not_written_before_it_has_lasted_is_looked_at_again_in_time(world: Observed) -> None:
    at_once = decide(replace(world, settings=replace(world.settings, stage_interval=seconds(0))), NOW)
    plan = decide(world, NOW)
    assert plan.status in (at_once.status, None)
    if plan.status != at_once.status:
        assert plan.requeue_after is not None
        assert plan.requeue_after <= world.settings.stage_interval
        assert replace(plan, status=at_once.status, events=at_once.events, requeue_after=at_once.requeue_after) == at_once


@given(histories())
@often
def test_repeating_passes_while_nothing_happens_comes_to_rest_and_says_nothing_twice(world: Observed) -> None:
    said = Counter[EmitEvent]()
    # What one pass ends (an attempt), the next may judge (no other may start), and the third finds finished.
    for _ in range(3):
        plan = decide(world, NOW)
        said.update(plan.events)
        world = with_plan_applied(world, plan)
    resting = decide(world, NOW)
    assert resting.status is None
    assert resting.events == ()
    assert set(said.values()) <= {1}


@given(histories())
@often
def test_a_pass_that_ends_nothing_has_nothing_to_add_when_repeated(world: Observed) -> None:
    outcome = with_plan_applied(world, decide(world, NOW))
    before, after = world.job.status, outcome.job.status
    ends_attempt = world.attempt_under_way and after.attempt_start_time is None
    if before.start_time == after.start_time and before.last_failure == after.last_failure and not ends_attempt:
        again = decide(outcome, NOW)
        assert again.status is None
        assert again.events == ()


@given(histories())
@often
def test_the_phase_is_always_there_and_agrees_with_the_conditions(world: Observed) -> None:
    status = status_after(world)
    assert status.phase is not None
    assert (status.phase == "Succeeded") == status.is_true("Succeeded")
    assert (status.phase == "Failed") == (status.is_true("Failed") and not status.is_true("Succeeded"))
    assert not (status.is_true("Succeeded") and status.is_true("Failed"))


@given(histories())
@often
def test_success_is_never_claimed_without_the_receivers_matching_verdict(world: Observed) -> None:
    before = world.job.status
    if status_after(world).is_true("Succeeded") and not before.is_true("Succeeded"):
        assert any(
            pod.role is Role.RECEIVER
            and pod.verdict is not None
            and pod.verdict.verdict == "Succeeded"
            and (pod.verdict.job, pod.verdict.attempt) == (UID, pod.attempt)
            for pod in world.pods
        )


@given(histories())
@often
def test_a_job_that_has_ended_never_moves_again(world: Observed) -> None:
    before = world.job.status
    if before.is_true("Succeeded") or before.is_true("Failed"):
        plan = decide(world, NOW)
        assert all(create.role is Role.CLEANER for create in plan.creates)
        assert status_after(world).condition("Succeeded") == before.condition("Succeeded")
        assert status_after(world).condition("Failed") == before.condition("Failed")


@given(histories())
@often
def test_there_is_at_most_one_live_pod_of_a_role(world: Observed) -> None:
    plan = decide(world, NOW)
    deleted = {delete.uid for delete in plan.deletes}
    staying = [pod for pod in world.pods if not has_ended(pod) and not pod.deleting and pod.uid not in deleted]
    counted = Counter([create.role for create in plan.creates])
    for create in plan.creates:
        assert not any(pod.role is create.role for pod in staying), f"{create} beside {staying}"
    assert all(count == 1 for count in counted.values())


@given(histories())
@often
def test_no_receiver_is_created_unless_the_finalizer_holds_the_job(world: Observed) -> None:
    plan = decide(world, NOW)
    if any(create.role is Role.RECEIVER for create in plan.creates):
        assert plan.finalizer is True or names.FINALIZER in world.job.metadata.finalizers
        assert not world.job.deleting


@given(histories())
@often
def test_nothing_is_deleted_twice_nor_in_the_same_pass_as_it_is_created(world: Observed) -> None:
    plan = decide(world, NOW)
    deleted = [delete.name for delete in plan.deletes]
    created = [names.child_name(world.job.metadata.name, UID, create.role.value, create.attempt) for create in plan.creates]
    assert len(set(deleted)) == len(deleted)
    assert not set(deleted) & set(created)
    assert not {pod.name for pod in world.pods} & set(created)


@given(histories())
@often
def test_every_condition_and_event_is_documented_and_current(world: Observed) -> None:
    plan = decide(world, NOW)
    for condition in plan.status.conditions if plan.status else ():
        assert condition.type in set(ConditionType)
        assert condition.reason in KNOWN_REASONS
        assert condition.message
    for event in plan.events:
        assert event.reason in set(EventReason)
        assert event.message


@given(histories())
@often
def test_an_event_is_one_line_that_people_can_read(world: Observed) -> None:
    for event in decide(world, NOW).events:
        assert len(event.message) <= LONGEST_EVENT
        assert len(event.message.splitlines()) == 1


@given(histories())
@often
def test_a_job_that_is_not_at_rest_is_polled_or_asks_to_be_looked_at_again(world: Observed) -> None:
    plan = decide(world, NOW)
    outcome = with_plan_applied(world, plan).job
    resting = outcome.deleting or outcome.spec.suspend or outcome.status.is_true("Succeeded") or outcome.status.is_true("Failed")
    assert resting or any(running_movers(world.pods)) or plan.requeue_after is not None


def test_decisions_never_ask_what_time_it_is() -> None:
    asks = []
    for path in Path(next(iter(fairlead.core.__path__))).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in {"now", "utcnow", "today", "monotonic"}
                and isinstance(node.value, ast.Name)
            ):
                asks += [f"{path.name}:{node.lineno}"] if node.value.id in {"datetime", "date", "time"} else []
    assert asks == []
