from __future__ import annotations

import pytest

from fairlead.core.fairness.model import JobStage
from fairlead_dev.bench.fairness.scenario import (
    BY_NAME,
    END_S,
    JOBS,
    LINKS,
    QUICK_END_S,
    QUICK_TIMELINE,
    TIMELINE,
    WEIGHTS,
    Event,
    due_bps,
    intervals,
    links_of,
    rules,
)

ALL = frozenset(BY_NAME)


def test_the_scenario_is_no_smaller_than_what_it_is_to_show() -> None:
    assert max(len(span.jobs) for span in intervals(TIMELINE, END_S)) >= 12
    assert {job.tenant for job in JOBS} == {"bronze", "silver", "gold"}
    assert sorted(WEIGHTS.values()) == [1, 2, 4]
    assert len(LINKS) == 3
    assert any(job.disk_bps is not None for job in JOBS)
    one, many = BY_NAME["gold_4"], BY_NAME["gold_5"]
    assert (one.streams, many.streams) == (1, 16)
    assert (one.tenant, one.weight, links_of(one)) == (many.tenant, many.weight, links_of(many))


@pytest.mark.parametrize(("timeline", "end_s"), [(TIMELINE, END_S), (QUICK_TIMELINE, QUICK_END_S)], ids=["full", "quick"])
def test_jobs_arrive_and_leave_when_they_can(timeline: tuple[Event, ...], end_s: float) -> None:
    running: set[str] = set()
    for event in timeline:
        assert set(event.leave) <= running
        assert not set(event.arrive) & running
        running = (running | set(event.arrive)) - set(event.leave)
    spans = intervals(timeline, end_s)
    assert [span.end_s for span in spans[:-1]] == [span.begin_s for span in spans[1:]]
    assert spans[-1].end_s == end_s
    assert spans[-1].jobs == running


def test_every_link_is_full_of_greedy_jobs_and_the_disk_gets_what_it_can_use() -> None:
    for weights in (WEIGHTS, {**WEIGHTS, "bronze": 4}):
        due = due_bps(ALL, weights)
        for link in LINKS:
            wanted = sum(bps for name, bps in due.items() if link.name in links_of(BY_NAME[name]))
            assert wanted == pytest.approx(link.available_bps, rel=1e-6)
        assert due["silver_3"] == pytest.approx(12.43e6, rel=1e-3), "its disk gives 12 Mb/s, which headers make more on the network"


def test_tenants_are_due_by_weight_where_nothing_else_limits_them() -> None:
    due = due_bps(ALL, WEIGHTS)
    at_c = {tenant: sum(due[f"{tenant}_{number}"] for number in (1, 2)) for tenant in WEIGHTS}
    assert at_c["silver"] == pytest.approx(2 * at_c["bronze"])
    assert at_c["gold"] == pytest.approx(4 * at_c["bronze"])
    assert due["gold_4"] == pytest.approx(due["gold_5"])
    assert due["bronze_4"] == pytest.approx(3 * due["bronze_5"])


def test_the_policy_means_the_same_links_as_the_bench() -> None:
    policy = rules(WEIGHTS)
    assert {name: rule.available_bps for name, rule in policy.links.items()} == pytest.approx(
        {link.name: link.available_bps for link in LINKS}
    )
    for job in JOBS:
        assert policy.links_of(job.participant(JobStage.ASKING)) == links_of(job)
        assert policy.tenant(job.tenant).weight == WEIGHTS[job.tenant]
