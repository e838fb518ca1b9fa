"""Reconciles TransferJobs: gather, decide, apply, and schedule the next pass."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.errors import InvalidResourceError, ReconcileError
from fairlead.api.transferjob import TransferJob
from fairlead.core.fairness.participant import participant_of
from fairlead.core.lifecycle import unreadable
from fairlead.core.lifecycle.outcome import earliest
from fairlead.core.lifecycle.placing import request_of
from fairlead.core.observed import MoverPod, Observed
from fairlead.core.paths.evidence import evidence_of
from fairlead.core.plan import DeleteCredentials, DeletePod, Plan
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.dtn.store import DtnStore
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.late_requests import LateRequests
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.placement.store import PlacementStore
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.progress_budget import ProgressBudget
from fairlead.handlers.queue import Backoff, WorkQueue
from fairlead.handlers.worker import ErrorPolicy, Worker
from fairlead.kube.apply import Applier
from fairlead.kube.client import KubeObject
from fairlead.kube.errors import ForbiddenError, NamespaceTerminatingError, RefusedError
from fairlead.kube.observe.gather import Gatherer

Decide = Callable[[Observed, datetime], Plan]

logger = logging.getLogger(__name__)


class RemovalWatch:
    """When pods that are being deleted are looked for live.

    A watch tells nothing of a pod that went while it was not open: between the first list and its start, or after a lost connection. The
    looks become rarer, as the pods of a lost node stay for as long as that.
    """

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff if backoff is not None else Backoff(first_seconds=2.0, most_seconds=60.0)
        self._next: dict[ObjectKey, tuple[int, datetime]] = {}

    def is_due(self, key: ObjectKey, pods: Iterable[MoverPod], now: datetime) -> bool:
        """Whether this pass over a job, of which `pods` are known, has to read them live."""
        if not any(pod.deleting for pod in pods):
            self.drop(key)
            return False
        looks, due = self._next.get(key, (0, None))
        if due is not None and now < due:
            return False
        self._next[key] = (looks + 1, now + timedelta(seconds=self._backoff.delay_seconds(looks + 1)))
        return due is not None

    def wait(self, key: ObjectKey, now: datetime) -> timedelta | None:
        """How long until the next look; None if no pod of this job is being deleted."""
        known = self._next.get(key)
        return None if known is None else max(known[1] - now, timedelta())

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job."""
        self._next.pop(key, None)


class Controller:
    """Reconciles TransferJobs, each in one task of `worker` at a time. All that waits is in `queue`, all that is known in `cache`."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: WorkQueue[ObjectKey],
        gatherer: Gatherer,
        applier: Applier,
        decide: Decide,
        now: Callable[[], datetime],
        metrics: OperatorMetrics,
        shares: ShareStore,
        paths: PathStore,
        dtns: DtnStore,
        placements: PlacementStore,
        late_requests: LateRequests,
        progress: ProgressBudget,
        on_gone: Callable[[ObjectKey], None] = lambda key: None,
        workers: int = 1,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._gatherer = gatherer
        self._applier = applier
        self._decide = decide
        self._now = now
        self._metrics = metrics
        self._shares = shares
        self._paths = paths
        self._dtns = dtns
        self._placements = placements
        self._late_requests = late_requests
        self._progress = progress
        self._on_gone = on_gone
        self._doubted: set[ObjectKey] = set()
        self._refusals: dict[ObjectKey, str] = {}
        self._removals = RemovalWatch()
        errors: ErrorPolicy[ObjectKey] = ErrorPolicy(
            lambda key: f"TransferJob {key.namespace}/{key.name}", metrics.count_error, self._remember
        )
        self.worker = Worker("worker", queue, self._timed, errors, count=workers, busy_with="a worker has been busy with one job")

    async def _timed(self, key: ObjectKey) -> timedelta | None:
        with self._metrics.reconcile_seconds.time():
            again = await self.reconcile(key)
        for name in self._cache.destinations.take_next(key.namespace, key.name):
            self._queue.add(ObjectKey(key.namespace, name))
        return again

    async def _remember(self, key: ObjectKey, error: Exception) -> None:
        """The next pass reports a refusal; after any other error it reads the job and its pods live, unless only patience is asked for."""
        if isinstance(error, RefusedError):
            self._refusals[key] = str(error)
        elif not isinstance(error, ReconcileError) or (error.retry and error.delay_seconds is None):
            self._doubted.add(key)

    async def reconcile(self, key: ObjectKey) -> timedelta | None:
        """Gathers, decides and applies once; returns when to reconcile again. Raises KubeError and InvalidResourceError."""
        try:
            return await self._pass(key)
        except ForbiddenError:
            if not await self._leaves_with_its_namespace(key):
                raise
            return None

    async def _leaves_with_its_namespace(self, key: ObjectKey) -> bool:
        """Lets a deleted job go where the operator may do nothing: a namespace that is deleted takes its RoleBinding along, for good."""
        body = self._cache.job(key)
        if body is None or not self._cache.is_terminating(key.namespace):
            return False
        live = await self._gatherer.read_job(key.namespace, key.name, body["metadata"]["uid"])
        if live is None or not unreadable.is_held(live):
            return False
        await self._release(live, unreadable.stand_in(live))
        self._forget(key)
        return True

    async def _pass(self, key: ObjectKey) -> timedelta | None:
        body = self._cache.job(key)
        if body is None:
            self._let_go(key)
            await self._stop_strays(key)
            return None
        if key in self._doubted:
            body = await self._refresh(key, body)
            if body is None:
                return None
        try:
            seen = await self._observe(body)
        except InvalidResourceError as error:
            return await self._set_aside(key, body, error)
        # Reported once, whatever becomes of this pass: while it was remembered nothing would be created.
        observed, now = self._complete(key, replace(seen, refusal=self._refusals.pop(key, "")))
        plan = self._decide(observed, now)
        removal_due = self._removals.is_due(key, observed.pods, now)
        if (removal_due or needs_live_facts(observed, plan)) and key not in self._doubted:
            # Watches lag, and after a lost connection they may miss a deletion for good: nothing irreversible is done by them alone.
            body = await self._refresh(key, body)
            if body is None:
                return None
            observed, now = self._complete(key, await self._renew(observed, body))
            plan = self._decide(observed, now)
        if late := self._late_requests.due(key, observed.job, now):
            plan = self._with_late_removals(plan, _job_uid(observed.job), late)
        self._shares.note(key, participant_of(observed, asks=plan.asks_for_links, now=now.timestamp()), now.timestamp())
        # No await between `_complete` and what follows, or two jobs could probe one path, write into one directory, or be given the
        # same ports or slots.
        self._paths.note(key, evidence_of(observed, plan, now))
        uid = _job_uid(observed.job)
        if plan.progress_alone:
            self._progress.spend()
        begins = not observed.attempt_under_way and plan.status is not None and plan.status.attempt_start_time is not None
        self._metrics.jobs.meet(observed, now)
        with (
            self._cache.ports.reserve(uid, plan.creates),
            self._placements.starting(uid.uid, observed.placement, plan.status),
            self._cache.destinations.starting(uid, begins=begins),
        ):
            await self._apply(body, observed.job, plan)
        self._late_requests.note(key, observed.job, plan.ended_credentials, now)
        self._metrics.jobs.note(observed, plan.status, now)
        self._forget(key)
        return earliest(plan.requeue_after, self._removals.wait(key, now), self._late_requests.wait(key, now))

    def _with_late_removals(self, plan: Plan, job: JobUid, attempts: tuple[int, ...]) -> Plan:
        """The plan, and the removal of what the operator before has made of these attempts after they had ended."""
        pods = (pod for pod in self._cache.unrecorded_pods_of(job) if pod.attempt in attempts)
        return replace(
            plan,
            deletes=(*plan.deletes, *(DeletePod(pod.name, pod.uid, pod.resource_version) for pod in pods)),
            ended_credentials=(*plan.ended_credentials, *map(DeleteCredentials, attempts)),
        )

    async def _set_aside(self, key: ObjectKey, body: KubeObject, error: InvalidResourceError) -> timedelta | None:
        """A pass over a job that cannot be read: it says so, and its deletion does not hang. Raises KubeError, or `error` again."""
        if not unreadable.is_held(body):
            conditions = unreadable.conditions_after(body, str(error), self._now())
            if conditions is not None:
                await self._applier.write_conditions(body, conditions)
            raise error
        live = await self._refresh(key, body)
        if live is None:
            return None
        job = unreadable.stand_in(live)
        plan = unreadable.dismantle(job, self._cache.pods_of(_job_uid(job)))
        await self._apply(live, job, plan)
        self._forget(key)
        return plan.requeue_after

    async def _apply(self, body: KubeObject, job: TransferJob, plan: Plan) -> None:
        try:
            await self._applier.apply(body, job, plan)
        except NamespaceTerminatingError:
            if not job.deleting:
                logger.info("TransferJob %s/%s: its namespace is being deleted", job.metadata.namespace, job.metadata.name)
                return
            latest = self._cache.job(ObjectKey(job.metadata.namespace, job.metadata.name))
            await self._release(latest if latest is not None else body, job)

    async def _release(self, body: KubeObject, job: TransferJob) -> None:
        """No cleaner can be created any more; the namespace's claims go with it, and holding on would hang its deletion."""
        logger.info(
            "TransferJob %s/%s: let go without cleaning up, its namespace is being deleted", job.metadata.namespace, job.metadata.name
        )
        await self._applier.apply(body, job, Plan(finalizer=False))

    def _complete(self, key: ObjectKey, observed: Observed) -> tuple[Observed, datetime]:
        """Adds what all jobs share and must be read in the same instant as it is given out, which is returned as well.

        What is decided must be decided for that instant: a pause that ended since would let an attempt begin that was given no place.
        """
        uid, now = observed.job.metadata.uid, self._now()
        starts = not observed.attempt_under_way and not observed.job.status.finished
        known = replace(
            observed,
            destination_writer=self._cache.destinations.writer_before(_job_uid(observed.job)) if starts else None,
            ports_in_use=self._cache.ports.in_use(_job_uid(observed.job)),
            fairness=self._shares.share(uid),
            asked_bps=self._shares.asked_bps(uid, now.timestamp()),
            excess=self._shares.excess(uid),
            path=self._paths.assignment(observed, now),
            transfer_nodes=self._dtns.transfer_nodes(),
            progress_writes=self._progress.allowed(),
            placement=None,
        )
        known = replace(known, placement=self._placements.answer(key, known, request_of(known, now)))
        return replace(known, engines=self._paths.engines(known, now)), now

    async def _observe(self, body: KubeObject) -> Observed:
        job = TransferJob.from_object(body)
        return await self._gatherer.observe(job, self._cache.pods_of(_job_uid(job)))

    async def _renew(self, observed: Observed, body: KubeObject) -> Observed:
        """The same observation with the live job and pods; reports are asked for again only if other pods run now."""
        job = TransferJob.from_object(body)
        pods = self._cache.pods_of(_job_uid(job))
        if {(pod.uid, pod.phase) for pod in pods} == {(pod.uid, pod.phase) for pod in observed.pods}:
            return replace(observed, job=job, pods=tuple(sorted(pods, key=lambda pod: (pod.attempt, pod.role))))
        return replace(await self._gatherer.observe(job, pods), refusal=observed.refusal)

    async def _refresh(self, key: ObjectKey, body: KubeObject) -> KubeObject | None:
        """Brings the cache up to date with the server for one job and its pods. None if the job is gone."""
        uid = body["metadata"]["uid"]
        live, pods = await asyncio.gather(
            self._gatherer.read_job(key.namespace, key.name, uid), self._gatherer.read_pods(key.namespace, uid)
        )
        if live is not None:
            pods = [*pods, *await self._gatherer.read_unlisted_pods(live, {owned.pod.uid for owned in pods})]
        self._cache.replace_pods_of(JobUid(key.namespace, uid), pods)
        if live is None:
            self._cache.drop_job(key, uid)
            if self._cache.jobs.get(key) is None:
                # No watch may ever tell of it.
                self._let_go(key)
            else:
                # Another job has the name by now, and what the watch has shown of it waits for this pass to end.
                self._queue.add(key)
            await self._stop_strays(key)
            return None
        self._cache.put_job(live)
        return live

    async def _stop_strays(self, key: ObjectKey) -> None:
        """Removes pods that outlive their job. Whoever may change jobs and pods can take away its finalizers and their owner, as
        `--cascade=orphan` does: movers would send on with no share and no slot, and cleaners that have ended would stay for ever."""
        for stray in self._cache.strays(key):
            # A job whose namespace could not be listed counts as gone, and need not be.
            if await self._gatherer.read_job(key.namespace, key.name, stray.job_uid) is None:
                await self._applier.stop(stray)

    def _let_go(self, key: ObjectKey) -> None:
        """Forgets a job that is gone, with all that it held or asked for."""
        self._shares.drop(key, self._now().timestamp())
        self._paths.drop(key)
        self._placements.drop(key)
        self._metrics.jobs.drop(key)
        self._removals.drop(key)
        self._late_requests.drop(key)
        self._on_gone(key)
        self._forget(key)

    def _forget(self, key: ObjectKey) -> None:
        self._doubted.discard(key)
        self._refusals.pop(key, None)


def _job_uid(job: TransferJob) -> JobUid:
    return JobUid(job.metadata.namespace, job.metadata.uid)


def needs_live_facts(observed: Observed, plan: Plan) -> bool:
    """Whether `plan` does something that cannot be taken back on the word of the watches: creating, deleting, letting go, or calling an
    attempt or the job failed. A success is proven by one pod's last word, which stays true."""
    if plan.deletes or plan.delete_job:
        return True
    if plan.creates or plan.credentials or plan.finalizer is not None:
        return not (_begins_a_new_job(observed, plan) or _lets_a_success_go(observed, plan))
    if plan.status is None:
        return False
    before = observed.job.status
    # A stale list may lack the pods of a healthy transfer, and a failed attempt is the word for stopping what is left of it.
    if (plan.status.last_failure, plan.status.failures) != (before.last_failure, before.failures):
        return True
    return plan.status.is_true(ConditionType.FAILED) and not before.is_true(ConditionType.FAILED)


def _begins_a_new_job(observed: Observed, plan: Plan) -> bool:
    """Whether the plan begins with holding a job that nothing was ever made for: that is refused if the job has changed or is gone, and
    nothing else is done then."""
    return plan.finalizer is True and not observed.pods and not observed.job.status.attempts and not observed.job.status.pods


def _lets_a_success_go(observed: Observed, plan: Plan) -> bool:
    """Whether the plan lets go of a job that has succeeded and that nobody deletes, and no more: that is refused if the job has changed,
    and follows from the job alone."""
    job = observed.job
    return plan.finalizer is False and not plan.creates and not job.deleting and job.status.is_true(ConditionType.SUCCEEDED)
