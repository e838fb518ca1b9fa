"""Follows Kueue: jobs that name a queue run while their Workload is admitted, and are suspended otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime

from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.transferjob import TransferJob
from fairlead.core.queueing import (
    QueueStep,
    ended,
    facts_of,
    is_queued,
    rate_of,
    released,
    step_of,
    workload_name,
    workload_of,
)
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.worker import BackgroundLoop
from fairlead.kube.client import JOBS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import KubeError, NotFoundError

WORKLOADS = ResourceKind("kueue.x-k8s.io/v1beta2", "workloads")
LOOK_SECONDS = 2.0
"""How often queued jobs and their Workloads are looked at."""

logger = logging.getLogger(__name__)


class KueueQueues:
    """Brings each queued job and its Workload one step further at every look. `jobs` are the jobs as they are known."""

    def __init__(self, client: KubeClient, jobs: Callable[[], Iterable[KnownJob]], now: Callable[[], datetime]) -> None:
        self._client = client
        self._jobs = jobs
        self._now = now
        self.service = BackgroundLoop("queues of Kueue", self._run)

    async def look(self) -> None:
        """One look at all queued jobs. What fails is tried again at the next one."""
        for known in list(self._jobs()):
            if not known.queue:
                continue
            body = known.body()
            try:
                job = TransferJob.from_object(body)
                if is_queued(job):
                    await self._keep(job)
            except InvalidResourceError:
                continue
            except KubeError as error:
                name = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
                logger.warning("TransferJob %s: its place in Kueue's queue was not kept: %s", name, error)

    async def _keep(self, job: TransferJob) -> None:
        namespace = job.metadata.namespace
        try:
            workload: KubeObject | None = await self._client.get(WORKLOADS, namespace, workload_name(job))
        except NotFoundError:
            workload = None
        match step_of(job, None if workload is None else facts_of(workload)):
            case QueueStep.SUSPEND | QueueStep.RESUME as step:
                await self._client.merge_patch(JOBS, namespace, job.metadata.name, _suspended(job, step is QueueStep.SUSPEND))
            case QueueStep.CREATE:
                # Without a bandwidth there is nothing to ask for: the job's condition says so.
                if (rate := rate_of(job)) is not None:
                    await self._client.create(WORKLOADS, namespace, workload_of(job, rate))
            case QueueStep.RELEASE if workload is not None:
                status = {"admission": None, "conditions": released(workload["status"].get("conditions") or [], self._time())}
                await self._write(workload, status)
            case QueueStep.FINISH if workload is not None:
                conditions = (workload.get("status") or {}).get("conditions") or []
                await self._write(workload, {"conditions": ended(conditions, job, self._time())})

    async def _write(self, workload: KubeObject, status: KubeObject) -> None:
        metadata = workload["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": status}
        await self._client.merge_patch(WORKLOADS, metadata["namespace"], metadata["name"], patch, subresource="status")

    def _time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)


def _suspended(job: TransferJob, suspend: bool) -> KubeObject:
    # Somebody else's job of the same name is left alone.
    return {"metadata": {"uid": job.metadata.uid}, "spec": {"suspend": suspend}}
