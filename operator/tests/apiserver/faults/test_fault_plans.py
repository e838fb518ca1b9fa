"""Plans as text, and which of them a sample has."""

from __future__ import annotations

import pytest

from faults.plans import OF_EVENTS, OF_READS, OF_WRITES, Fault, Plan, PlanError, Point, plans_of, read_plan, sample

SEEN = ["LIST pods", "CREATE pods job-receiver-1", "ADDED pods job-receiver-1", "LIST pods"]


def test_a_plan_is_what_its_text_says() -> None:
    plan = Plan("create", Fault.APPLIED_BUT_504, Point("PATCH transferjobs/status job", 3))
    assert str(plan) == "create/504-applied@PATCH transferjobs/status job#3"
    assert read_plan(str(plan)) == plan


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("create", "is no plan"),
        ("create/500@CREATE pods job#0", "is no plan"),
        ("create/no-such@CREATE pods job#1", "there is no fault no-such"),
        ("create/dropped@CREATE pods job#1", "cannot be brought about at CREATE"),
        ("create/504-applied@GET nodes dtn-a#1", "cannot be brought about at GET"),
        ("create/500@ADDED pods job#1", "cannot be brought about at ADDED"),
    ],
)
def test_what_is_no_plan_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        read_plan(text)


def test_every_fault_is_planned_at_every_point() -> None:
    plans = plans_of("create", SEEN)
    assert len(plans) == len(set(plans)) == 2 * len(OF_READS) + len(OF_WRITES) + len(OF_EVENTS)
    assert Plan("create", Fault.BROKEN, Point("LIST pods", 2)) in plans


def test_a_sample_is_the_same_for_one_seed_and_takes_each_fault_of_each_workload_first() -> None:
    plans = [*plans_of("create", SEEN), *plans_of("delete", SEEN)]
    kinds = {(plan.workload, plan.fault) for plan in plans}
    first = sample(plans, 7, len(kinds))
    assert {(plan.workload, plan.fault) for plan in first} == kinds
    assert first == sample(plans, 7, len(kinds))
    assert first != sample(plans, 8, len(kinds))
    assert set(sample(plans, 7, None)) == set(plans)


def test_a_point_less_in_another_recording_leaves_the_rest_of_a_sample_as_it_was() -> None:
    plans = plans_of("create", SEEN)
    gone = plans[0].point
    fewer = [plan for plan in plans if plan.point != gone]
    count = len(plans) // 2
    kept = set(sample(plans, 7, count)) - set(sample(fewer, 7, count))
    assert {plan for plan in kept if plan.point != gone} == set()
