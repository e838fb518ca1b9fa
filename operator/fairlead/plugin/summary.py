"""A job on one line: what `watch` and `submit --wait` show of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pydantic import Field

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.facts import Facts
from fairlead.plugin.cluster import Exit
from fairlead.plugin.why.cause import KUEUE_QUEUE, JobStanding, cause_of
from fairlead.plugin.why.evidence import JobEvidence

_ORDER: Final = {
    JobStanding.RUNNING: 0,
    JobStanding.TROUBLED: 0,
    JobStanding.STARTING: 1,
    JobStanding.RETRYING: 2,
    JobStanding.WAITING: 3,
    JobStanding.BLOCKED: 3,
    JobStanding.NOT_SERVED: 3,
    JobStanding.DELETING: 4,
    JobStanding.SUSPENDED: 4,
    JobStanding.FAILED: 5,
    JobStanding.SUCCEEDED: 6,
}


class JobSummary(ApiModel):
    """What one line shows."""

    namespace: str
    name: str
    uid: str
    phase: str
    state: JobStanding
    reason: str
    """The cause's constant, as `why` has it from the job alone."""
    because: str
    percent: int | None = None
    bytes_transferred: int | None = None
    """Those that arrived and those that were there already."""
    bytes_total: int | None = None
    rate: str | None = None
    eta: str | None = None
    cap: str | None = None
    congestion_control: str | None = None
    streams: int | None = None
    source_node: str | None = None
    destination_node: str | None = None
    created_time: Timestamp
    completion_time: Timestamp | None = None
    is_put_aside: bool = Field(default=False, exclude=True)
    """Its movers have stopped and its spec says so: nothing comes of it until somebody acts. Kueue resumes its own by itself."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of the job."""
        return self.state in {JobStanding.SUCCEEDED, JobStanding.FAILED}

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.has_ended or self.is_put_aside


def summary_of(job: TransferJob, now: datetime) -> JobSummary:
    """The job's line at `now`."""
    status, cause = job.status, cause_of(JobEvidence(Facts(job)), now)
    progress, decision, ends = status.progress, status.decision, status.endpoints
    runs = status.is_true(ConditionType.MOVERS_READY) and not status.finished
    done = None
    if progress is not None and progress.bytes_transferred is not None:
        done = progress.bytes_transferred + (progress.bytes_skipped or 0)
    return JobSummary(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
        phase="Deleting" if job.deleting else status.phase or "Pending",
        state=cause.state,
        reason=cause.reason,
        because=cause.because,
        percent=progress.percent if progress else None,
        bytes_transferred=done,
        bytes_total=progress.bytes_total if progress else None,
        rate=progress.rate if progress and (runs or status.finished) else None,
        eta=progress.eta if progress and runs else None,
        cap=status.bandwidth.allocated if status.bandwidth and runs else None,
        congestion_control=decision.congestion_control if decision else None,
        streams=decision.streams if decision else None,
        source_node=ends.source.node if ends and ends.source else job.spec.source.node,
        destination_node=ends.destination.node if ends and ends.destination else job.spec.destination.node,
        created_time=job.metadata.creation_timestamp,
        completion_time=status.completion_time,
        is_put_aside=cause.state is JobStanding.SUSPENDED and job.spec.suspend and KUEUE_QUEUE not in job.metadata.labels,
    )


def in_order(jobs: Iterable[JobSummary]) -> list[JobSummary]:
    """Those that run first, then those that wait, then those that ended, the latest first; each group by namespace and name."""

    def key(job: JobSummary) -> tuple[int, float, str, str]:
        ended = -job.completion_time.timestamp() if job.has_ended and job.completion_time else 0.0
        return _ORDER[job.state], ended, job.namespace, job.name

    return sorted(jobs, key=key)


def outcome_of(jobs: Iterable[JobSummary | None]) -> Exit:
    """The exit code for settled jobs that were waited for; None is one that was deleted."""
    codes = {_code(job) for job in jobs}
    return next((code for code in (Exit.FAILED, Exit.ENDED) if code in codes), Exit.DONE)


def _code(job: JobSummary | None) -> Exit:
    if job is None or job.is_put_aside:
        return Exit.ENDED
    return Exit.FAILED if job.state is JobStanding.FAILED else Exit.DONE
