"""The status is written when there is news, seldom for progress alone, and never when idle."""

from __future__ import annotations

from e2e.lib import history
from e2e.lib.history import phase
from e2e.lib.lab import Lab
from e2e.lib.waiting import stays_true

STATUS_INTERVAL_S = 10.0
WATCH_JITTER_S = 0.5
QUIET_S = 15.0


def test_progress_alone_is_written_at_most_every_ten_seconds_and_nothing_when_idle(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=24_000_000, files=8)
    job = lab.submit(bandwidth={"limit": "5M"})
    job.wait_succeeded()

    intervals_s = history.routine_intervals_s(job.changes)
    assert len(intervals_s) >= 2, "too few writes to tell anything"
    assert min(intervals_s) >= STATUS_INTERVAL_S - WATCH_JITTER_S
    percents = [change.object["status"].get("progress", {}).get("percent", 0) for change in history.status_writes(job.changes)]
    assert percents == sorted(percents)

    job.wait_for(lambda seen: phase(seen) == "Succeeded" and not seen["metadata"].get("finalizers"), "the finalizer's removal")
    finished = job.object["metadata"]["resourceVersion"]
    stays_true(lambda: job.object["metadata"]["resourceVersion"] == finished, "a finished job is not written", QUIET_S)


def test_a_suspended_job_is_not_written_while_it_waits(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=1_000_000)
    job = lab.submit(suspend=True)
    job.wait_phase("Suspended")
    settled = job.object["metadata"]["resourceVersion"]
    stays_true(lambda: job.object["metadata"]["resourceVersion"] == settled, "a suspended job is not written", QUIET_S)
    assert job.pods() == []
