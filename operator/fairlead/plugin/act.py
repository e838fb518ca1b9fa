"""`cancel`, `suspend` and `resume`: one request for each job, and what the user is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.facts import ExplainError, read_job, readable
from fairlead.kube.client import JOBS
from fairlead.kube.errors import ConflictError, KubeError, NotFoundError
from fairlead.plugin.cluster import POLL_SECONDS, Exit, PassingError, Pause, PluginError, Session
from fairlead.plugin.output import Output, complain
from fairlead.plugin.why.cause import KUEUE_QUEUE


class ActOutcome(StrEnum):
    """What has become of a job, for programs."""

    CANCELLING = "Cancelling"
    CANCELLED = "Cancelled"
    SUSPENDED = "Suspended"
    SUSPENDED_ALREADY = "SuspendedAlready"
    RESUMED = "Resumed"
    NOT_SUSPENDED = "NotSuspended"


_WORDS: Final = {
    ActOutcome.CANCELLING: "cancelled: its movers stop, then its partial files are removed",
    ActOutcome.CANCELLED: "cancelled, and its partial files are removed",
    ActOutcome.SUSPENDED: "suspended: its movers stop, and what has arrived is kept",
    ActOutcome.SUSPENDED_ALREADY: "is suspended already",
    ActOutcome.RESUMED: "resumed: a new attempt goes on",
    ActOutcome.NOT_SUSPENDED: "is not suspended",
}


async def cancel(session: Session, output: Output, names: Sequence[str], *, waits: bool, pause: Pause = asyncio.sleep) -> Exit:
    """Deletes jobs that have not ended. A job that has is a record, which nobody means to lose by a late `cancel`."""
    jobs = [await _job(session, name) for name in names]
    _refuse_ended(jobs, "cancelled; `kubectl delete transferjob` removes its record")
    for job in jobs:
        try:
            await session.client.delete(JOBS, session.namespace, job.metadata.name, uid=job.metadata.uid)
        except (NotFoundError, ConflictError):
            # Somebody else deleted it.
            pass
        except KubeError as error:
            raise session.failure(error, "delete", JOBS, session.namespace) from error
        if not waits:
            _tell(output, job, ActOutcome.CANCELLING)
    for job in jobs if waits else ():
        await _until_gone(session, job, pause)
        _tell(output, job, ActOutcome.CANCELLED)
    return Exit.DONE


async def set_suspension(session: Session, output: Output, names: Sequence[str], *, every: bool, suspend: bool) -> Exit:
    """Suspends or resumes jobs; with `every` all of the namespace that have not ended."""
    if every:
        bodies = await session.list_all(JOBS, session.namespace)
        jobs = [job for job in readable(TransferJob, bodies) if not job.status.finished and not job.deleting]
        jobs = [job for job in jobs if suspend or KUEUE_QUEUE not in job.metadata.labels]
    else:
        jobs = [await _job(session, name) for name in names]
        _refuse_ended(jobs, "suspended" if suspend else "resumed")
    queued = [job for job in jobs if KUEUE_QUEUE in job.metadata.labels]
    if queued and not suspend:
        first = queued[0]
        queue = first.metadata.labels[KUEUE_QUEUE]
        raise PluginError(f"{_full(first)} is held by Kueue's queue {queue}, which would suspend it again: that queue admits it")
    for job in jobs:
        if job.spec.suspend == suspend:
            _tell(output, job, ActOutcome.SUSPENDED_ALREADY if suspend else ActOutcome.NOT_SUSPENDED)
            continue
        precondition = {"metadata": {"uid": job.metadata.uid}}
        try:
            await session.client.merge_patch(JOBS, session.namespace, job.metadata.name, {**precondition, "spec": {"suspend": suspend}})
        except NotFoundError as error:
            raise PluginError(f"{_full(job)} is gone: somebody deleted it") from error
        except KubeError as error:
            raise session.failure(error, "patch", JOBS, session.namespace) from error
        _tell(output, job, ActOutcome.SUSPENDED if suspend else ActOutcome.RESUMED)
    if every and not jobs and not output.as_json:
        output.line(f"no job of namespace {session.namespace} is to be {'suspended' if suspend else 'resumed'}")
    return Exit.DONE


async def _job(session: Session, name: str) -> TransferJob:
    try:
        return await read_job(session.client, session.server, session.namespace, name)
    except ExplainError as error:
        raise PluginError(str(error)) from error


def _refuse_ended(jobs: Sequence[TransferJob], what: str) -> None:
    ended = next((job for job in jobs if job.status.finished), None)
    if ended is not None:
        raise PluginError(f"{_full(ended)} has ended ({ended.status.phase}) and cannot be {what}")


async def _until_gone(session: Session, job: TransferJob, pause: Pause) -> None:
    while True:
        try:
            if not await _exists(session, job):
                return
        except PassingError as error:
            complain(f"{error}; trying again")
        await pause(POLL_SECONDS / 2)


async def _exists(session: Session, job: TransferJob) -> bool:
    try:
        body = await session.client.get(JOBS, session.namespace, job.metadata.name)
    except NotFoundError:
        return False
    except KubeError as error:
        raise session.failure(error, "get", JOBS, session.namespace) from error
    return bool(body["metadata"]["uid"] == job.metadata.uid)


def _tell(output: Output, job: TransferJob, outcome: ActOutcome) -> None:
    words = _WORDS[outcome]
    if output.as_json:
        record = {"namespace": job.metadata.namespace, "name": job.metadata.name, "uid": job.metadata.uid}
        output.record({**record, "outcome": outcome, "message": words})
    else:
        output.line(f"{_full(job)} {words}")


def _full(job: TransferJob) -> str:
    return f"{job.metadata.namespace}/{job.metadata.name}"
