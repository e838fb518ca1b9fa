"""The status is written when there is news, seldom for progress alone, and never when idle."""

from __future__ import annotations

import pytest

from e2e.lib import history
from e2e.lib.history import phase
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.waiting import stays_true

STATUS_INTERVAL_S = 10.0
QUIET_S = 15.0
STEADY = {"congestionControl": "cubic", "streams": {"min": 2, "max": 2}}
"""An advisor that changes its mind is news, and may be told at any time."""


def assert_stays_unwritten(lab: Lab, job: Job, what: str) -> None:
    """A watch may lag behind: what counts in the end is what the API server has."""
    settled = job.object["metadata"]["resourceVersion"]
    stays_true(lambda: job.object["metadata"]["resourceVersion"] == settled, what, QUIET_S)
    now = lab.kubectl.get("transferjob", job.name, namespace=lab.namespace)
    assert now is not None
    assert now["metadata"]["resourceVersion"] == settled, what


@pytest.mark.long(110)
def test_progress_alone_is_written_at_most_every_ten_seconds_and_nothing_when_idle(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=48_000_000, files=8)
    job = lab.submit(bandwidth={"limit": "5M"}, transport=STEADY)
    job.wait_succeeded()

    versions = [change.object for change in job.changes]
    intervals_s = history.progress_intervals_s(versions)
    assert len(intervals_s) >= 2, "too few writes to tell anything"
    assert min(intervals_s) >= STATUS_INTERVAL_S
    percents = [version["status"].get("progress", {}).get("percent", 0) for version in history.status_writes(versions)]
    assert percents == sorted(percents)

    job.wait_for(lambda seen: phase(seen) == "Succeeded" and not seen["metadata"].get("finalizers"), "the finalizer's removal")
    assert_stays_unwritten(lab, job, "a finished job is not written")


def test_a_suspended_job_is_not_written_while_it_waits(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=1_000_000)
    job = lab.submit(suspend=True)
    job.wait_phase("Suspended")
    assert_stays_unwritten(lab, job, "a suspended job is not written")
    assert job.pods() == []
