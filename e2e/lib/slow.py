"""A job that is held back until a test has done its part to it, and then let go."""

from __future__ import annotations

from e2e.lib.job import Job
from e2e.lib.lab import Lab
from fairlead_dev.clients.kubectl import Object


def start_slowly(lab: Lab, bytes_total: int, bandwidth: Object) -> Job:
    """A job in mid-transfer, of which a whole block has arrived."""
    lab.write(lab.source, "odd", bytes_total=bytes_total)
    job = lab.submit(bandwidth=bandwidth)
    job.wait_phase("Transferring")
    job.wait_for(lambda seen: seen.get("status", {}).get("progress", {}).get("bytesTransferred"), "a whole block that has arrived")
    return job


def finish_fast(lab: Lab, job: Job) -> None:
    """The job's end without its limit: both ends are equal, and nothing of the movers is left."""
    job.patch(bandwidth=None)
    job.wait_succeeded()
    lab.assert_equal()
    assert lab.partial_files() == []
