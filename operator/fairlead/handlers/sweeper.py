"""Our own periodic list: it finds what the watches missed, above all deletions during a lost connection, and re-queues every job.

It also removes mover pods that nobody recorded and that can therefore never run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from fairlead.api import names
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.queue import WorkQueue
from fairlead.handlers.worker import STUCK_SECONDS, BackgroundLoop, NotHealthyError
from fairlead.kube.client import JOBS, NAMESPACES, PODS, POLICIES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError
from fairlead.kube.observe.pods import MOVER_SELECTOR, OwnedPod, read_owned_pod

RETRY_SECONDS = 10.0

logger = logging.getLogger(__name__)


class Sweeper:
    """Lists all jobs, mover pods, policies and namespaces and makes the cache agree.

    `monotonic` is a clock in seconds, `wall` one since the epoch; `on_rules` is called when policies and namespaces were listed.
    Jobs and pods are those of `namespaces`, of every one if that is empty.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        queue: WorkQueue[ObjectKey],
        metrics: OperatorMetrics,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        on_rules: Callable[[], None] = lambda: None,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._monotonic = monotonic
        self._wall = wall
        self._on_rules = on_rules
        self._namespaces = namespaces
        self._last_success: float | None = None
        self._unrecorded: dict[ObjectKey, OwnedPod] = {}
        """Pods of the last list that have the gate of a new mover and are no job's own."""

    def service(self, interval_seconds: float) -> BackgroundLoop:
        """A sweep every `interval_seconds`, the first one after that time."""
        return BackgroundLoop("sweeper", lambda: self.run(interval_seconds), lambda: self._check(3 * interval_seconds + STUCK_SECONDS))

    def seconds_since_success(self) -> float | None:
        """Age of the last complete list, None if there was none yet."""
        return None if self._last_success is None else self._monotonic() - self._last_success

    def _check(self, oldest_seconds: float) -> dict[str, float]:
        age_seconds = self.seconds_since_success()
        if age_seconds is None or age_seconds > oldest_seconds:
            raise NotHealthyError(f"no complete list of jobs and pods for {age_seconds or 0:.0f} s")
        return {"last_list_seconds": round(age_seconds, 1)}

    async def run(self, interval_seconds: float) -> None:
        """Sweeps for ever; a failed list is tried again soon."""
        await asyncio.sleep(interval_seconds)
        while True:
            try:
                await self.sweep()
            except KubeError as error:
                self._metrics.count_error(error.kind)
                logger.warning("listing jobs and pods failed, again in %.0f s: %s", RETRY_SECONDS, error)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await asyncio.sleep(interval_seconds)

    async def sweep(self) -> None:
        """One complete list. Raises KubeError."""
        begun = self._monotonic()
        await self._sweep_policies()
        await self._sweep_namespaces()
        self._on_rules()
        # Pods first: a job that is in the second list has all its pods of before in the first one.
        unrecorded_before = self._unrecorded
        touched = await self._sweep_pods() | await self._sweep_jobs()
        for key, owned in self._unrecorded.items():
            if key in unrecorded_before and unrecorded_before[key].pod.uid == owned.pod.uid:
                await self._remove(owned)
        for key in touched:
            self._queue.add(key)
        self._last_success = begun
        self._metrics.last_list_timestamp_seconds.set(self._wall())

    async def _pages(self, resource: ResourceKind, *, label_selector: str | None = None) -> AsyncIterator[list[KubeObject]]:
        """The collection in the namespaces that are served. Raises ForbiddenError if none of them may be read.

        A namespace that was deleted took the operator's rights there with it, and must not keep the others from being served.
        """
        refusals: list[ForbiddenError] = []
        for namespace in self._namespaces or (None,):
            try:
                async for page in self._client.list_pages(resource, namespace, label_selector=label_selector):
                    yield page
            except ForbiddenError as error:
                logger.warning("namespace %s is not served, it may lack the chart's RoleBinding: %s", namespace, error)
                refusals.append(error)
        if len(refusals) == len(self._namespaces or (None,)):
            raise refusals[0]

    async def _sweep_pods(self) -> set[ObjectKey]:
        before = self._cache.pods.snapshot()
        listed: dict[ObjectKey, str] = {}
        touched: set[ObjectKey] = set()
        self._unrecorded = {}
        async for page in self._pages(PODS, label_selector=MOVER_SELECTOR):
            for body in page:
                owned = read_owned_pod(body)
                if owned is not None:
                    key = ObjectKey(owned.namespace, owned.pod.name)
                    listed[key] = owned.pod.uid
                    job_key = self._cache.put_owned_pod(owned)
                    if job_key is not None:
                        touched.add(job_key)
                    elif names.GATE_RECORDED in owned.pod.gates and owned.pod.node is None and not owned.pod.deleting:
                        self._unrecorded[key] = owned
        phantoms = self._cache.pods.unlisted(before, listed)
        for key, uid in phantoms:
            gone_from = self._cache.drop_pod(key, uid)
            if gone_from is not None:
                touched.add(gone_from)
        self._metrics.count_phantoms(len(phantoms))
        return touched

    async def _remove(self, stranded: OwnedPod) -> None:
        """Removes a pod that two lists in a row showed: the operator ended, or lost the answer, before it could record the creation.

        An attempt that goes on replaces such a pod when it needs the name. One that was given up never does, and pods of a job that is
        gone go with it.
        """
        job = self._cache.jobs.get(ObjectKey(stranded.namespace, stranded.job_name))
        is_created = self._cache.is_created(stranded.namespace, stranded.job_uid, stranded.pod.uid)
        if job is None or job["metadata"]["uid"] != stranded.job_uid or is_created:
            return
        where = f"{stranded.namespace}/{stranded.pod.name}"
        try:
            await self._client.delete(PODS, stranded.namespace, stranded.pod.name, uid=stranded.pod.uid, grace_seconds=0)
            logger.info("pod %s was removed: its creation was never recorded, so it could not run", where)
        except (NotFoundError, ConflictError):
            logger.debug("pod %s was gone already", where)
        except ForbiddenError as error:
            logger.warning("pod %s, whose creation was never recorded, cannot be removed: %s", where, error)

    async def _sweep_jobs(self) -> set[ObjectKey]:
        before = self._cache.jobs.snapshot()
        listed: dict[ObjectKey, str] = {}
        async for page in self._pages(JOBS):
            for body in page:
                listed[self._cache.put_job(body)] = body["metadata"]["uid"]
        phantoms = self._cache.jobs.unlisted(before, listed)
        for key, uid in phantoms:
            self._cache.drop_job(key, uid)
        self._metrics.count_phantoms(len(phantoms))
        return set(listed)

    async def _sweep_policies(self) -> None:
        before = self._cache.policies.snapshot()
        listed: dict[ObjectKey, str] = {}
        try:
            async for page in self._client.list_pages(POLICIES):
                for body in page:
                    listed[self._cache.put_policy(body)] = body["metadata"]["uid"]
        except NotFoundError:
            # A cluster whose CRDs are older than the operator has no policies, and its jobs run all the same.
            logger.warning("the API server has no %s: no shares are kept until the chart's CRDs are up to date", POLICIES.plural)
        for key, uid in self._cache.policies.unlisted(before, listed):
            self._cache.policies.drop(key, uid)

    async def _sweep_namespaces(self) -> None:
        before = self._cache.namespaces.snapshot()
        listed: dict[ObjectKey, str] = {}
        async for page in self._client.list_pages(NAMESPACES):
            for body in page:
                listed[self._cache.put_namespace(body)] = body["metadata"]["uid"]
        for key, uid in self._cache.namespaces.unlisted(before, listed):
            self._cache.namespaces.drop(key, uid)
