"""Turns a job and its pods into an `Observed`: adds facts about the cluster and what the movers report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.status import PodRecord
from fairlead.core.endpoints import vetted
from fairlead.core.network import traits_of
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role
from fairlead.core.reports import Reports
from fairlead.core.settings import OperatorSettings
from fairlead.kube.client import EVENTS, JOBS, PODS, KubeClient, KubeObject
from fairlead.kube.errors import ForbiddenError, NotFoundError
from fairlead.kube.observe.events import NETWORK_FAILED, latest_message
from fairlead.kube.observe.facts import MOST_REMEMBERED, ClusterFacts, FactReader
from fairlead.kube.observe.pods import OwnedPod, read_owned_pod, read_recorded_pod, recorded_pods

FRESH_SECONDS = 2.0
"""How old facts may be for a job that has to be placed."""

SETTLED_SECONDS = 600.0
"""How old facts may be for a job whose movers run and are heard of: they no longer decide anything, and each of thousands of jobs has two
claims."""


class ReportSource(Protocol):
    """Where the reports of a job's movers come from, without waiting for any."""

    def latest(self, job: TransferJob, pods: Sequence[MoverPod]) -> Reports:
        """The last good reports of the job's running pods."""


class Gatherer:
    """Reads what one pass decides by, apart from ports, which must be read in the same instant as they are given out."""

    def __init__(
        self,
        client: KubeClient,
        facts: FactReader,
        reports: ReportSource,
        settings: OperatorSettings,
        bandwidth_manager: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._facts = facts
        self._reports = reports
        self._settings = settings
        self._bandwidth_manager = bandwidth_manager
        self._node_of: dict[str, str] = {}

    async def observe(self, job: TransferJob, pods: Sequence[MoverPod]) -> Observed:
        """The job with facts and reports. Raises KubeError."""
        if traits_of(job).uses_node_interfaces:
            self._note_nodes(pods)
        reports = self._reports.latest(job, pods)
        facts = await self._read_facts(job, pods, is_heard_of=reports.receiver is not None or reports.sender is not None)
        observed = Observed(
            job=job,
            pods=tuple(sorted(pods, key=lambda pod: (pod.attempt, pod.role))),
            reports=reports,
            nodes=facts.nodes,
            claims=facts.claims,
            attachments=facts.attachments,
            network_failures=await self._network_failures(job, pods),
            settings=self._settings,
            bandwidth_manager=self._bandwidth_manager(),
        )
        return vetted(observed, self._node_of)

    async def read_job(self, namespace: str, name: str, uid: str) -> KubeObject | None:
        """The job as the server has it now, None if this incarnation is gone. Raises KubeError."""
        try:
            body = await self._client.get(JOBS, namespace, name)
        except NotFoundError:
            return None
        return body if body["metadata"]["uid"] == uid else None

    async def read_pods(self, namespace: str, job_uid: str) -> list[OwnedPod]:
        """The job's pods as the server has them now. Raises KubeError."""
        selector = f"{names.LABEL_JOB_UID}={job_uid}"
        pods: list[OwnedPod] = []
        async for page in self._client.list_pages(PODS, namespace, label_selector=selector):
            pods += (owned for owned in map(read_owned_pod, page) if owned is not None and owned.job_uid == job_uid)
        return pods

    async def read_unlisted_pods(self, job: KubeObject, listed: Collection[str]) -> list[OwnedPod]:
        """Those pods that the job's status records and a list by labels did not show (`listed` has UIDs), although they are still there:
        whoever may change pods can take away their labels and owner, and their movers run on all the same. Raises KubeError."""
        records = [record for record in recorded_pods(job) if record.uid not in listed]
        found = await asyncio.gather(*(self._read_recorded(job["metadata"], record) for record in records))
        return [owned for owned in found if owned is not None]

    async def _read_recorded(self, job: Mapping[str, Any], record: PodRecord) -> OwnedPod | None:
        try:
            body = await self._client.get(PODS, job["namespace"], record.name)
        except NotFoundError:
            return None
        return read_recorded_pod(body, job["name"], job["uid"], record)

    async def _network_failures(self, job: TransferJob, pods: Sequence[MoverPod]) -> dict[str, str]:
        """What the events of attached pods tell of their network, while these have a node and no address. Raises KubeError."""
        if not traits_of(job).needs_attachment:
            return {}
        waiting = [pod.uid for pod in pods if pod.node and pod.address is None and pod.phase is PodPhase.PENDING and not pod.deleting]
        told = await asyncio.gather(*(self._network_failure(job.metadata.namespace, uid) for uid in waiting))
        return {uid: message for uid, message in zip(waiting, told, strict=True) if message}

    async def _network_failure(self, namespace: str, pod_uid: str) -> str:
        selector = f"involvedObject.uid={pod_uid},reason={NETWORK_FAILED}"
        try:
            async for page in self._client.list_pages(EVENTS, namespace, field_selector=selector):
                return latest_message(page)
        except ForbiddenError:
            # The right to read events can be withheld; the job then waits with a less telling message.
            pass
        return ""

    def _note_nodes(self, pods: Sequence[MoverPod]) -> None:
        """Remembers the addresses of nodes by pods on their network: no mover on another node may claim them."""
        for pod in pods:
            if pod.node is not None:
                self._node_of |= dict.fromkeys(pod.addresses, pod.node)
        while len(self._node_of) > MOST_REMEMBERED:
            del self._node_of[next(iter(self._node_of))]

    async def _read_facts(self, job: TransferJob, pods: Sequence[MoverPod], *, is_heard_of: bool) -> ClusterFacts:
        if job.status.finished and names.FINALIZER not in job.metadata.finalizers:
            return ClusterFacts(nodes={}, claims={})
        running = {pod.role for pod in pods if pod.phase is PodPhase.RUNNING and not pod.deleting}
        # Movers that have fallen silent may be on nodes that are lost.
        settled = is_heard_of and {Role.SENDER, Role.RECEIVER} <= running
        pod_nodes = {pod.node for pod in pods if pod.node is not None}
        return await self._facts.read(job, pod_nodes, SETTLED_SECONDS if settled else FRESH_SECONDS)
