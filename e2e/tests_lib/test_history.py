"""What is concluded from the versions of a job."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.lib import history

from access.kubectl import Object
from access.watch import Change


def version(phase: str, percent: int = 0, **more: Any) -> Object:
    return {"status": {"phase": phase, "progress": {"percent": percent}, **more}}


def condition(kind: str, status: str, reason: str, at: str = "2026-01-01T00:00:07Z") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": at}


def at(*timed: tuple[float, Object]) -> list[Change]:
    return [Change("MODIFIED", job, at_s) for at_s, job in timed]


def test_phases_are_told_once_each_turn() -> None:
    versions = [{}, version("Pending"), version("Pending", 1), version("Suspended"), version("Pending")]
    assert history.phases(versions) == ["Pending", "Suspended", "Pending"]


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_true_is_true(status: str, expected: bool) -> None:
    assert history.is_true({"status": {"conditions": [condition("Failed", status, "R")]}}, "Failed") is expected


def test_a_condition_is_found_by_its_reason() -> None:
    job = {"status": {"conditions": [condition("Accepted", "True", "Valid"), condition("Failed", "True", "SourceMissing")]}}
    found = history.condition_with_reason(job, "SourceMissing")
    assert found is not None
    assert found["type"] == "Failed"
    assert history.condition_with_reason(job, "SourceEmpty") is None


def test_seconds_until_a_condition_run_from_the_jobs_creation() -> None:
    job = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert history.seconds_until(job, condition("Failed", "True", "R")) == 7


def test_a_change_beside_the_status_is_no_status_write() -> None:
    same = version("Pending")
    assert history.status_writes(at((0, same), (1, {**same, "metadata": {"finalizers": ["f"]}}))) == []


def test_only_writes_of_a_running_job_that_keep_its_phase_are_timed() -> None:
    capped = [condition("CapEnforced", "True", "WithinCap")]
    changes = at(
        (0, version("Pending")),
        (1, version("Pending", attempts=1)),
        (2, version("Transferring")),
        (4, version("Transferring", 5)),
        (5, version("Transferring", 5, conditions=capped)),
        (15, version("Transferring", 9, conditions=capped)),
        (16, version("Succeeded", 100)),
    )
    assert history.routine_intervals_s(changes) == [1, 10]
