"""Our own list: it finds what the watches missed, above all deletions during a lost connection. It is made soon after a watch began anew,
and from time to time: then it re-queues every job, those of which it shows something new at once, the others one after the other.

It also removes mover pods that nobody recorded and that can therefore never run, stops movers that outlived their job, and lets deleted
jobs go that nobody serves any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from fairlead.api.shared.errors import ReconcileError
from fairlead.core.lifecycle import unreadable
from fairlead.handlers.cache import Cache, ObjectKey, Versions
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.worker import STUCK_SECONDS, BackgroundLoop, NotHealthyError
from fairlead.kube.client import JOBS, NAMESPACES, PODS, POLICIES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError
from fairlead.kube.observe.pods import MOVER_SELECTOR, OwnedPod

T = TypeVar("T")

MOST_GONE_BACK = 2
"""One list that is older than one before it may be a mistake; after a restoration of the API server's data all are."""

logger = logging.getLogger(__name__)


_SPREAD = 0.5
"""The part of the time between two sweeps over which the jobs are looked at of which a sweep shows nothing new."""


class JobQueue(Protocol):
    """Where jobs are put that are to be looked at."""

    def add(self, key: ObjectKey) -> None:
        """Asks for work on a job."""

    def add_after(self, key: ObjectKey, delay_seconds: float) -> None:
        """Asks for it after a while."""


class Sweeper:
    """Lists all jobs, mover pods, policies and namespaces and makes the cache agree.

    `monotonic` is a clock in seconds, `wall` one since the epoch; `on_rules` is called when policies and namespaces were listed.
    Jobs and pods are those of `namespaces`, of every one if that is empty; `let_go` removes the operator's finalizer from a job of another
    one, and `stop` removes a pod. Nothing is removed unless `leads`.
    """

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        queue: JobQueue,
        metrics: OperatorMetrics,
        *,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
        let_go: Callable[[KubeObject], Awaitable[None]],
        stop: Callable[[OwnedPod], Awaitable[None]],
        on_rules: Callable[[], None] = lambda: None,
        namespaces: Sequence[str] = (),
        retry_seconds: float = 10.0,
        after_gap_seconds: float = 2.0,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client
        self._cache = cache
        self._queue = queue
        self._metrics = metrics
        self._monotonic = monotonic
        self._wall = wall
        self._let_go = let_go
        self._stop = stop
        self._on_rules = on_rules
        self._namespaces = namespaces
        self._retry_seconds = retry_seconds
        self._after_gap_seconds = after_gap_seconds
        self._gap = asyncio.Event()
        self._leads = leads
        self._last_success: float | None = None
        self._newest_version = 0
        self._lists_gone_back = 0
        """How many lists in a row were older than one before them."""
        self._unrecorded: dict[ObjectKey, OwnedPod] = {}
        """Pods of the last list that have the gate of a new mover and are no job's own."""
        self._ownerless: dict[ObjectKey, OwnedPod] = {}
        """Pods of the last list that name no owner and are of no use without their job."""
        self._strays: dict[ObjectKey, OwnedPod] = {}
        """Those whose job the last complete list did not have."""

    def service(self, interval_seconds: float) -> BackgroundLoop:
        """A sweep every `interval_seconds`, the first one after that time."""
        return BackgroundLoop("sweeper", lambda: self.run(interval_seconds), lambda: self._check(3 * interval_seconds + STUCK_SECONDS))

    def seconds_since_success(self) -> float | None:
        """Age of the last complete list, None if there was none yet."""
        return None if self._last_success is None else self._monotonic() - self._last_success

    def _check(self, oldest_seconds: float) -> dict[str, float]:
        if self._lists_gone_back >= MOST_GONE_BACK:
            raise NotHealthyError("the API server's data are older than what is known, as after a restoration: only a new start shows them")
        age_seconds = self.seconds_since_success()
        if age_seconds is None or age_seconds > oldest_seconds:
            raise NotHealthyError(f"no complete list of jobs and pods for {age_seconds or 0:.0f} s")
        return {"last_list_seconds": round(age_seconds, 1)}

    def note_gap(self) -> None:
        """A watch began anew: what was deleted meanwhile is to be found."""
        self._gap.set()

    async def run(self, interval_seconds: float) -> None:
        """Sweeps for ever; a failed list is tried again soon."""
        due = self._monotonic() + interval_seconds
        while True:
            is_gap = await self._gap_until(due)
            try:
                if is_gap and self._monotonic() < due:
                    await self._catch_up()
                else:
                    await self.sweep(_SPREAD * interval_seconds)
                    due = self._monotonic() + interval_seconds
                continue
            except KubeError as error:
                self._metrics.count_error(error.kind)
                logger.warning("listing jobs and pods failed, again in %.0f s: %s", self._retry_seconds, error)
            except Exception:
                self._metrics.count_error(ReconcileError.kind)
                logger.exception("listing jobs and pods failed by a defect of the operator, again in %.0f s", self._retry_seconds)
            due = self._monotonic() + self._retry_seconds

    async def _gap_until(self, due: float) -> bool:
        """Whether a watch began anew before then; returns a little after it did."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gap.wait(), max(0.0, due - self._monotonic()))
        if not self._gap.is_set():
            return False
        await asyncio.sleep(self._after_gap_seconds)
        self._gap.clear()
        return True

    async def sweep(self, spread_seconds: float = 0.0) -> None:
        """One complete list; jobs of which it shows nothing new are looked at within `spread_seconds`. Raises KubeError."""
        unrecorded_before, strays_before = self._unrecorded, self._strays
        settled = await self._list_all()
        for number, key in enumerate(sorted(settled)):
            self._queue.add_after(key, spread_seconds * number / len(settled))
        if not self._leads():
            return
        for key, owned in self._unrecorded.items():
            if key in unrecorded_before and unrecorded_before[key].pod.uid == owned.pod.uid:
                await self._remove(owned)
        for key, owned in self._strays.items():
            if key in strays_before and strays_before[key].pod.uid == owned.pod.uid:
                await self._stop(owned)
        if self._namespaces:
            await self._let_go_elsewhere()

    async def _catch_up(self) -> None:
        """One complete list, by which nothing is removed: what two lists show so soon after each other may still be recorded."""
        before = self._unrecorded, self._strays
        await self._list_all()
        self._unrecorded, self._strays = before

    async def _list_all(self) -> set[ObjectKey]:
        """Takes in everything and queues the jobs of which there is something new; returns the others. Raises KubeError."""
        begun = self._monotonic()
        await self._sweep_policies()
        await self._sweep_namespaces()
        self._on_rules()
        # Pods first: a job that is in the second list has all its pods of before in the first one.
        pods, jobs = await self._sweep_pods(), await self._sweep_jobs()
        news = pods.news | jobs.news
        for key in news:
            self._queue.add(key)
        self._last_success = begun
        self._metrics.last_list_timestamp_seconds.set(self._wall())
        return (pods.settled | jobs.settled) - news

    async def _read(
        self, resource: ResourceKind, listing: _Listing[Any], take: Callable[[KubeObject], object], *, label_selector: str | None = None
    ) -> None:
        """Takes in the collection of the namespaces that are served. Raises ForbiddenError if none of them may be read.

        A namespace that was deleted took the operator's rights there with it, and must not keep the others from being served.
        """
        refusals: list[ForbiddenError] = []
        namespaces = (self._namespaces if resource.namespaced else ()) or (None,)
        for namespace in namespaces:
            try:
                async for page in self._client.list_pages(
                    resource, namespace, label_selector=label_selector, on_version=listing.note_version
                ):
                    for body in page:
                        self._take_in(resource, listing, body, take)
            except ForbiddenError as error:
                if namespace is not None:
                    listing.refused.add(namespace)
                    logger.warning("namespace %s is not served, it may lack the chart's RoleBinding: %s", namespace, error)
                refusals.append(error)
        if len(refusals) == len(namespaces):
            raise refusals[0]

    def _take_in(self, resource: ResourceKind, listing: _Listing[Any], body: KubeObject, take: Callable[[KubeObject], object]) -> None:
        """Takes in one object of a list. One that cannot be read is logged and must not keep the others from being listed."""
        metadata = body["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        listing.listed[key] = metadata["uid"]
        try:
            take(body)
        except Exception:
            self._metrics.count_error(ReconcileError.kind)
            logger.exception("%s %s/%s cannot be taken in", resource.plural, key.namespace, key.name)

    async def _sweep_pods(self) -> _Touched:
        listing = _Listing(self._cache.pods)
        touched = _Touched()
        self._unrecorded, self._ownerless = {}, {}

        def take(body: KubeObject) -> None:
            owned = self._cache.read_pod(body)
            if owned is None:
                return
            pod_key = ObjectKey(owned.namespace, owned.pod.name)
            if owned.is_stray:
                self._ownerless[pod_key] = owned
            known = self._cache.pods.get(pod_key)
            job_key = self._cache.put_owned_pod(owned)
            if job_key is not None:
                is_known = known is not None and known.pod.resource_version == owned.pod.resource_version
                (touched.settled if is_known else touched.news).add(job_key)
            elif owned.waits_for_record:
                self._unrecorded[pod_key] = owned

        await self._read(PODS, listing, take, label_selector=MOVER_SELECTOR)
        phantoms = self._phantoms(listing)
        for key, uid in phantoms:
            gone_from = self._cache.drop_pod(key, uid)
            if gone_from is not None:
                touched.news.add(gone_from)
        self._metrics.count_phantoms(len(phantoms))
        return touched

    async def _remove(self, stranded: OwnedPod) -> None:
        """Removes a pod that two lists in a row showed: the operator ended, or lost the answer, before it could record the creation.

        An attempt that goes on replaces such a pod when it needs the name. One that was given up never does, and pods of a job that is
        gone go with it.
        """
        job = self._cache.jobs.get(ObjectKey(stranded.namespace, stranded.job_name))
        is_created = self._cache.is_created(stranded.namespace, stranded.job_uid, stranded.pod.uid)
        if job is None or job.uid != stranded.job_uid or is_created:
            return
        where = f"{stranded.namespace}/{stranded.pod.name}"
        try:
            await self._client.delete(PODS, stranded.namespace, stranded.pod.name, uid=stranded.pod.uid, grace_seconds=0)
            logger.info("pod %s was removed: its creation was never recorded, so it could not run", where)
        except (NotFoundError, ConflictError):
            logger.debug("pod %s was gone already", where)
        except ForbiddenError as error:
            logger.warning("pod %s, whose creation was never recorded, cannot be removed: %s", where, error)

    async def _let_go_elsewhere(self) -> None:
        """Lets deleted jobs go in namespaces that are not served any more: nobody else would, and neither they nor their namespace could
        ever go. Nothing else is done to them, as the operator has no rights over pods there."""
        held: list[KubeObject] = []
        try:
            async for page in self._client.list_pages(JOBS):
                held += (body for body in page if body["metadata"]["namespace"] not in self._namespaces and unreadable.is_held(body))
        except ForbiddenError as error:
            logger.warning("deleted jobs of namespaces that are not served cannot be let go: %s", error)
        for body in held:
            metadata = body["metadata"]
            where = f"{metadata['namespace']}/{metadata['name']}"
            try:
                await self._let_go(body)
                message = (
                    "TransferJob %s: let go without cleaning up, its namespace is not served: .fairlead-%s may be left at its destination"
                )
                logger.warning(message, where, metadata["uid"])
            except (NotFoundError, ConflictError):
                logger.debug("TransferJob %s is gone or has changed, the next list shows it", where)
            except ForbiddenError as error:
                logger.warning("TransferJob %s, whose namespace is not served, cannot be let go: %s", where, error)

    async def _sweep_jobs(self) -> _Touched:
        listing = _Listing(self._cache.jobs)
        touched = _Touched()

        def take(body: KubeObject) -> None:
            metadata = body["metadata"]
            key = ObjectKey(metadata["namespace"], metadata["name"])
            is_known = self._cache.jobs.has(key, metadata["uid"], str(metadata.get("resourceVersion", "")))
            (touched.settled if is_known else touched.news).add(self._cache.put_job(body))

        await self._read(JOBS, listing, take)
        phantoms = self._phantoms(listing)
        for key, uid in phantoms:
            self._cache.drop_job(key, uid)
        self._metrics.count_phantoms(len(phantoms))
        self._note_version(listing.oldest_version())
        uids = set(listing.listed.values())
        left = ((key, owned) for key, owned in self._ownerless.items() if key.namespace not in listing.refused)
        self._strays = {key: owned for key, owned in left if owned.job_uid not in uids}
        # A phantom may have left something behind, as what it held on the links.
        touched.news.update(key for key, _ in phantoms)
        # One that could not be taken in says so in its status.
        touched.news.update(listing.listed.keys() - touched.settled)
        return touched

    def _phantoms(self, listing: _Listing[Any]) -> list[tuple[ObjectKey, str]]:
        """What has gone. A namespace that was refused may be served again in a moment, unless it goes itself."""
        return [(key, uid) for key, uid in listing.phantoms() if key.namespace not in listing.refused or self._goes(key.namespace)]

    def _goes(self, namespace: str) -> bool:
        return self._cache.namespaces.get(ObjectKey("", namespace)) is None or self._cache.is_terminating(namespace)

    def _note_version(self, version: str) -> None:
        if not version:
            return
        self._lists_gone_back = self._lists_gone_back + 1 if int(version) < self._newest_version else 0
        self._newest_version = max(self._newest_version, int(version))

    async def _sweep_policies(self) -> None:
        listing = _Listing(self._cache.policies)
        try:
            await self._read(POLICIES, listing, self._cache.put_policy)
        except NotFoundError:
            # A cluster whose CRDs are older than the operator has no policies, and its jobs run all the same.
            logger.warning("the API server has no %s: no shares are kept until the chart's CRDs are up to date", POLICIES.plural)
        for key, uid in listing.phantoms():
            self._cache.policies.drop(key, uid)

    async def _sweep_namespaces(self) -> None:
        listing = _Listing(self._cache.namespaces)
        await self._read(NAMESPACES, listing, self._cache.put_namespace)
        for key, uid in listing.phantoms():
            self._cache.namespaces.drop(key, uid)


@dataclass(frozen=True, slots=True)
class _Touched:
    """Jobs that a list has shown: with something new about them, or as they are known."""

    news: set[ObjectKey] = field(default_factory=set)
    settled: set[ObjectKey] = field(default_factory=set)


class _Listing(Generic[T]):
    """What was known before a list, and what the list has shown so far: `listed` maps keys to UIDs."""

    def __init__(self, known: Versions[T]) -> None:
        self._known = known
        self._before = known.snapshot()
        self._versions: list[str] = []
        self.listed: dict[ObjectKey, str] = {}
        self.refused: set[str] = set()
        """Namespaces of which it shows nothing."""

    def note_version(self, version: str) -> None:
        """The version of the collection that a page shows."""
        self._versions.append(version)

    def oldest_version(self) -> str:
        """Of several namespaces' lists each has a version of its own, of which the oldest one proves the least; empty without any."""
        return min((version for version in self._versions if version.isdigit()), key=int, default="")

    def phantoms(self) -> list[tuple[ObjectKey, str]]:
        """Keys and UIDs of what the list shows to be gone."""
        return self._known.unlisted(self._before, self.listed, self.oldest_version())
