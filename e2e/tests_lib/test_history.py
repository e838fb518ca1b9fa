"""What is concluded from the versions of a job."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.lib import history

from fairlead_dev.clients.kubectl import Object


def version(phase: str, percent: int = 0, **more: Any) -> Object:
    return {"status": {"phase": phase, "progress": {"percent": percent}, **more}}


def condition(kind: str, status: str, reason: str, at: str = "2026-01-01T00:00:07Z") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": at}


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


def told(percent: int, at: str, *conditions: Object, phase: str = "Transferring", measured: str = "5M", **more: Any) -> Object:
    progress = {"percent": percent, "lastProgressTime": f"2026-01-01T00:00:{at}Z"}
    return {"status": {"phase": phase, "progress": progress, "bandwidth": {"measured": measured}, "conditions": [*conditions], **more}}


def test_a_change_beside_the_status_is_no_status_write() -> None:
    same = version("Pending")
    assert history.status_writes([same, {**same, "metadata": {"finalizers": ["f"]}}]) == []


def test_writes_of_a_running_job_for_progress_alone_are_timed_by_the_times_in_the_status() -> None:
    kept = condition("CapEnforced", "True", "WithinCap")
    versions = [version("Pending"), version("Transferring"), told(1, "04"), told(9, "15", measured="6M"), told(30, "27", kept)]
    assert history.progress_intervals_s(versions) == [11, 12]


@pytest.mark.parametrize(
    "other",
    [
        told(9, "05", phase="Verifying"),
        told(9, "05", condition("PathProbed", "True", "Probed")),
        told(9, "05", condition("CapEnforced", "False", "AboveCap")),
        told(9, "05", decision={"streams": 8}),
        told(1, "04", condition("CapEnforced", "True", "WithinCap")),
        told(9, "05", phase="Succeeded"),
    ],
    ids=["phase", "condition", "a cap that is not kept", "decision", "no progress", "the end"],
)
def test_other_news_may_be_written_at_any_time(other: Object) -> None:
    assert history.progress_intervals_s([told(1, "04"), other]) == []
