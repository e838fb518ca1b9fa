"""What is held against a run, and what is not after faults that bring it about."""

from __future__ import annotations

from typing import Any

import pytest

from faults.plans import OF_EVENTS, Fault, Plan, Point, read_plan
from faults.runs import (
    IMPATIENT,
    LOOK_SECONDS,
    MORE_WRITES,
    MORE_WRITES_PER_SECOND,
    PATIENCE_LOOKS,
    RESYNC_SECONDS,
    WRITES_PER_REFUSED_POD,
    Trace,
    deviation,
    limit_bps,
    state_of_job,
    too_many_writes,
)


def _state(failures: int | None, attempts: int = 2) -> dict[str, Any]:
    job = {"failures": failures, "attempts": attempts, "lastFailure": [attempts - 1, "Evicted"], "phase": "Succeeded"}
    return {"jobs": {"job": job}, "pods": [["job-sender-2", "sender", attempts, "Succeeded"]]}


@pytest.mark.parametrize(
    ("plan", "failures", "wrong"),
    [
        ("eviction/403@CREATE pods job-sender-1#1", None, ""),
        ("nodes-lost/denied@CREATE pods job-sender-1#1", None, ""),
        ("eviction/denied@CREATE pods job-receiver-1#1", 0, ""),
        ("eviction/403@CREATE pods job-sender-1#1", 1, ""),
        ("eviction/403@CREATE pods job-sender-1#1", 2, "jobs.job.failures is 2, not 1"),
        ("eviction/denied@CREATE pods job-sender-1#1", 2, "jobs.job.failures is 2, not 1"),
        ("eviction/403@CREATE pods job-cleaner-1#1", None, "jobs.job.failures is null, not 1"),
        ("eviction/403@CREATE secrets job-credentials-1#1", None, "jobs.job.failures is null, not 1"),
        ("eviction/403@PATCH pods job-sender-1#1", None, "jobs.job.failures is null, not 1"),
        ("eviction/500@CREATE pods job-sender-1#1", None, "jobs.job.failures is null, not 1"),
        ("eviction/500@CREATE pods job-sender-1#1", 2, "jobs.job.failures is 2, not 1"),
    ],
)
def test_only_where_a_mover_was_refused_fewer_failures_may_count_and_nowhere_more(plan: str, failures: int | None, wrong: str) -> None:
    assert deviation(read_plan(plan), _state(1), _state(failures)) == wrong


@pytest.mark.parametrize(
    ("plan", "is_wrong"), [("create/403@CREATE pods job-cleaner-1#1", False), ("create/500@CREATE pods job-sender-1#1", True)]
)
def test_a_refusal_may_cost_an_attempt(plan: str, is_wrong: bool) -> None:
    assert bool(deviation(read_plan(plan), _state(1), _state(1, attempts=3))) is is_wrong


@pytest.mark.parametrize(("end", "shown"), [({}, "750M"), ({"completionTime": "2026-01-01T00:00:00Z"}, None)])
def test_the_share_of_a_job_counts_until_its_end(end: dict[str, str], shown: str | None) -> None:
    status = {"bandwidth": {"allocated": "750M"}, **end}
    assert state_of_job({"metadata": {"name": "job"}, "spec": {}, "status": status})["allocated"] == shown


def test_without_a_fault_every_difference_counts() -> None:
    assert deviation(None, _state(1), _state(1)) == ""
    assert deviation(None, _state(1), _state(None)) == "jobs.job.failures is null, not 1"


def test_a_job_that_is_missing_is_no_matter_of_failures() -> None:
    assert "jobs.job is null" in deviation(read_plan("eviction/403@CREATE pods job-sender-1#1"), _state(1), {"jobs": {}, "pods": []})


WRITE = "PATCH transferjobs/status job"


def _trace(writes: int, seconds: float = 10.0) -> Trace:
    return Trace(("LIST pods", *[WRITE] * writes), None, frozenset(), seconds)


@pytest.mark.parametrize(
    ("writes", "denied", "seconds", "is_too_much"),
    [
        (49 + MORE_WRITES, 0, 5.0, False),
        (49 + MORE_WRITES + 1, 0, 5.0, True),
        (49 + MORE_WRITES + 1, 1, 5.0, False),
        (49 + MORE_WRITES + 9, 8, 5.0, True),
        (49 + MORE_WRITES + int(MORE_WRITES_PER_SECOND), 0, 6.0, False),
        (49 + MORE_WRITES + int(MORE_WRITES_PER_SECOND) + 1, 0, 6.0, True),
    ],
)
def test_what_was_refused_for_want_of_a_right_is_no_write(writes: int, denied: int, seconds: float, is_too_much: bool) -> None:
    # The usual run has waited five seconds longer for its end than the others do.
    said = too_many_writes(_trace(49), _trace(writes, seconds), [WRITE] * denied)
    assert said == (f"{writes - denied} writes in the place of 49: [('{WRITE}', {writes - denied})]" if is_too_much else "")


@pytest.mark.parametrize(("more", "is_too_much"), [(2 * WRITES_PER_REFUSED_POD, False), (2 * WRITES_PER_REFUSED_POD + 1, True)])
def test_what_comes_and_goes_with_a_refused_pod_may_be_written(more: int, *, is_too_much: bool) -> None:
    refused = ["CREATE pods job-receiver-1", "CREATE pods job-sender-1", "PATCH pods job-sender-1"]
    trace = Trace((*[WRITE] * (49 + MORE_WRITES + more), *refused), None, frozenset(), 5.0)
    assert bool(too_many_writes(_trace(49), trace, refused)) is is_too_much


@pytest.mark.parametrize("fault", Fault)
def test_caps_are_held_against_every_fault_but_lists_of_the_past(fault: Fault) -> None:
    plan = Plan("leave-slowly", fault, Point("DELETE pods one-receiver-1", 1))
    assert limit_bps(1e9, plan) == (None if fault is Fault.STALE else 1e9)


@pytest.mark.parametrize("fault", OF_EVENTS)
def test_caps_are_not_held_against_an_operator_that_is_told_of_the_policy_late_or_never(fault: Fault) -> None:
    told, untold = (Plan("share", fault, Point(f"{kind} fairnesspolicies site", 1)) for kind in ("MODIFIED", "ADDED"))
    assert limit_bps(1e9, told) == 1e9
    assert limit_bps(1e9, untold) == (1e9 if fault is Fault.REPEATED else None)


def test_caps_are_held_against_a_run_without_a_fault_where_there_is_a_limit() -> None:
    assert limit_bps(1e9, None) == 1e9
    assert limit_bps(None, None) is None


def test_no_list_and_no_new_watch_heals_within_the_patience_with_a_run() -> None:
    patience_seconds = PATIENCE_LOOKS * LOOK_SECONDS
    assert float(RESYNC_SECONDS) > 2 * patience_seconds
    assert IMPATIENT.watch_seconds > 2 * patience_seconds
