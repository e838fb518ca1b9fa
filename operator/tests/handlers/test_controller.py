from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, orphaned, pod_body
from prometheus_client import context_managers

from fairlead.api import names
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.status import FailureStatus
from fairlead.core.fairness.model import Admission, JobShare, JobStage
from fairlead.core.observed import MoverPod, Observed, ProgressWrites, Role
from fairlead.core.paths.model import Probing
from fairlead.core.plan import CreatePod, DeleteCredentials, DeletePod, Plan
from fairlead.core.reports import MoverEndpoint
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.controller import Controller, needs_live_facts
from fairlead.handlers.dtn.store import DtnStore
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.late_requests import LateRequests
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.placement.store import PlacementStore
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.progress_budget import ProgressBudget
from fairlead.handlers.queue import Backoff, WorkQueue
from fairlead.kube.apply import Applier
from fairlead.kube.client import KubeObject
from fairlead.kube.errors import (
    ConflictError,
    ForbiddenError,
    KubeError,
    NamespaceTerminatingError,
    RefusedError,
    ThrottledError,
    UnavailableError,
)
from fairlead.kube.objects.build import BuildError
from fairlead.kube.observe.gather import Gatherer
from fairlead.kube.observe.pods import OwnedPod, read_owned_pod

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ObjectKey("lab", "job")
NOBODY = JobUid("lab", "nobody")
CREATE = Plan(creates=(CreatePod(Role.RECEIVER, 1, "dtn-b", 24000),))


class FakeGatherer:
    """Answers from what the test says is live."""

    def __init__(self) -> None:
        self.live_job: KubeObject | None = None
        self.live_pods: list[KubeObject] = []
        self.unlisted_pods: list[KubeObject] = []
        self.listed: set[str] = set()
        self.on_read: Callable[[], object] = lambda: None
        self.live_reads = 0
        self.observations = 0
        self.network_failures: dict[str, str] = {}
        self.refusal: ForbiddenError | None = None

    async def observe(self, job: TransferJob, pods: Iterable[MoverPod]) -> Observed:
        self.observations += 1
        await asyncio.sleep(0)
        return Observed(job=job, pods=tuple(pods), network_failures=self.network_failures)

    async def read_job(self, namespace: str, name: str, uid: str) -> KubeObject | None:
        self.live_reads += 1
        self.on_read()
        return self.live_job

    async def read_pods(self, namespace: str, job_uid: str) -> list[OwnedPod]:
        if self.refusal is not None:
            raise self.refusal
        return [owned for owned in map(read_owned_pod, self.live_pods) if owned is not None]

    async def read_unlisted_pods(self, job: KubeObject, listed: Collection[str]) -> list[OwnedPod]:
        self.listed = set(listed)
        return [owned for owned in map(read_owned_pod, self.unlisted_pods) if owned is not None]


class FakeApplier:
    """Remembers plans and fails when it is told to."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, Plan]] = []
        self.failures: list[Exception] = []
        self.told: list[list[KubeObject]] = []
        self.stopped: list[str] = []

    async def apply(self, body: KubeObject, job: TransferJob, plan: Plan) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.applied.append((body["metadata"]["resourceVersion"], plan))

    async def write_conditions(self, body: KubeObject, conditions: list[KubeObject]) -> None:
        self.told.append(conditions)

    async def stop(self, stray: OwnedPod) -> None:
        self.stopped.append(stray.pod.uid)


class Bench:
    """A controller with everything around it faked."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.clock: Iterator[datetime] = itertools.repeat(NOW)
        self.cache = Cache()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(self.timers, Backoff(1.0, 8.0))
        self.gatherer = FakeGatherer()
        self.applier = FakeApplier()
        self.decide: Callable[[Observed, datetime], Plan] = lambda observed, now: Plan()
        self.metrics = OperatorMetrics()
        self.shares = ShareStore()
        self.paths = PathStore()
        self.dtns = DtnStore()
        self.late_requests = LateRequests(60.0)
        self.controller = Controller(
            cache=self.cache,
            queue=self.queue,
            gatherer=cast(Gatherer, self.gatherer),
            applier=cast(Applier, self.applier),
            decide=self._decide_now,
            now=lambda: next(self.clock),
            metrics=self.metrics,
            shares=self.shares,
            paths=self.paths,
            dtns=self.dtns,
            placements=PlacementStore(
                jobs=self.cache.jobs.values, nodes=self.dtns.transfer_nodes, wall=self.timers.time, monotonic=self.timers.time
            ),
            late_requests=self.late_requests,
            progress=ProgressBudget(self.timers.time, most_a_second=1.0),
        )

    def _decide_now(self, observed: Observed, now: datetime) -> Plan:
        return self.decide(observed, now)

    def put(self, **fields: Any) -> None:
        body = job_body(**fields)
        self.cache.put_job(body)
        self.gatherer.live_job = body

    def put_namespace(self, **metadata: Any) -> None:
        self.cache.put_namespace({"metadata": {"name": KEY.namespace, "uid": "namespace-uid", "resourceVersion": "1", **metadata}})

    def errors(self, kind: str) -> float:
        return self.metrics.registry.get_sample_value("fairlead_operator_reconcile_errors_total", {"kind": kind}) or 0.0

    def next_look_seconds(self) -> float | None:
        """When the queue hands the key out again, None if it does not."""
        for tenths in range(2000):
            if self.queue.depth:
                return tenths / 10
            self.timers.advance(0.1)
        return None


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_key_of_no_job_is_dropped(bench: Bench) -> None:
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.observations == 0
    assert bench.next_look_seconds() is None


async def test_passes_are_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 100.25, 200.0, 202.0))
    monkeypatch.setattr(context_managers, "default_timer", lambda: next(clock))
    bench.put()
    for _ in range(2):
        await bench.controller.worker.handle(KEY)
    value = bench.metrics.registry.get_sample_value
    assert value("fairlead_operator_reconcile_duration_seconds_count") == 2
    assert value("fairlead_operator_reconcile_duration_seconds_sum") == 2.25
    assert value("fairlead_operator_reconcile_duration_seconds_bucket", {"le": "0.25"}) == 1


async def test_a_job_is_met_by_the_metrics_before_a_pass_that_may_begin_an_attempt_and_then_fail(bench: Bench) -> None:
    bench.applier.failures = [UnavailableError("gone for a moment")]
    bench.put()
    await bench.controller.worker.handle(KEY)
    shown = bench.metrics.registry.get_sample_value("fairlead_job_attempts", {"namespace": KEY.namespace, "transferjob": KEY.name})
    assert (bench.applier.applied, shown) == ([], 0)


async def test_what_the_board_says_reaches_the_decision_and_what_was_seen_reaches_the_board(bench: Bench) -> None:
    share = JobShare(Admission.ADMITTED, cap_bps=5)
    bench.shares.publish({"job-uid": share})
    seen: list[JobShare | None] = []

    def decide(observed: Observed, now: datetime) -> Plan:
        seen.append(observed.fairness)
        return Plan(asks_for_links=True)

    bench.decide = decide
    bench.put()
    await bench.controller.worker.handle(KEY)
    assert seen == [share]
    assert bench.shares.jobs()[KEY].stage is JobStage.ASKING
    bench.cache.drop_job(KEY, "job-uid")
    await bench.controller.worker.handle(KEY)
    assert bench.shares.jobs() == {}


async def test_a_place_is_asked_for_and_the_decision_made_for_one_moment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that ends between the two would let an attempt begin without a place."""
    asked: list[datetime] = []
    decided: list[datetime] = []
    monkeypatch.setattr("fairlead.handlers.controller.request_of", lambda observed, now: asked.append(now))

    def decide(observed: Observed, now: datetime) -> Plan:
        decided.append(now)
        return CREATE

    bench.decide = decide
    bench.clock = (NOW + timedelta(seconds=number) for number in itertools.count())
    bench.put()
    await bench.controller.worker.handle(KEY)
    assert len(set(decided)) == 2
    assert decided == asked


async def test_applies_the_decision_and_comes_back_when_it_says(bench: Bench) -> None:
    bench.put()
    plan = Plan(requeue_after=timedelta(seconds=3))
    bench.decide = lambda observed, now: plan
    await bench.controller.worker.handle(KEY)
    assert [applied for _, applied in bench.applier.applied] == [plan]
    assert bench.next_look_seconds() == pytest.approx(3.0, abs=0.11)


async def test_harmless_plans_need_no_live_read(bench: Bench) -> None:
    bench.put()
    bench.decide = lambda observed, now: Plan(status=TransferJobStatus(phase="Pending"))
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.live_reads == 0


async def test_progress_is_written_as_often_as_the_budget_for_all_jobs_allows(bench: Bench) -> None:
    bench.put()
    allowed: list[ProgressWrites] = []

    def decide(observed: Observed, now: datetime) -> Plan:
        allowed.append(observed.progress_writes)
        return Plan(status=TransferJobStatus(phase="Transferring"), progress_alone=observed.progress_writes is not ProgressWrites.NONE)

    bench.decide = decide
    for _ in range(4):
        await bench.controller.worker.handle(KEY)
    bench.timers.advance(1.0)
    await bench.controller.worker.handle(KEY)
    none, overdue, every = ProgressWrites
    assert allowed == [every, every, none, none, overdue]


async def test_nothing_is_created_on_the_word_of_the_watch_alone(bench: Bench) -> None:
    bench.put(version="5")
    bench.gatherer.live_job = job_body(version="9", pods=["pod-uid"])
    bench.gatherer.live_pods = [pod_body()]
    bench.decide = lambda observed, now: Plan() if observed.pods else CREATE
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.live_reads == 1
    assert bench.applier.applied == [("9", Plan())]
    assert bench.gatherer.observations == 2


async def test_why_a_pods_network_failed_is_still_known_after_the_live_read(bench: Bench) -> None:
    bench.put()
    bench.gatherer.network_failures = {"pod-1": "no address is left"}
    known = []

    def decide(observed: Observed, now: datetime) -> Plan:
        known.append(observed.network_failures)
        return CREATE

    bench.decide = decide
    await bench.controller.reconcile(KEY)
    assert bench.gatherer.live_reads == 1
    assert known == [bench.gatherer.network_failures] * 2


async def test_a_phantom_pod_is_not_believed_when_it_matters(bench: Bench) -> None:
    bench.put()
    bench.cache.put_created_pod(pod_body(uid="phantom"))
    delete = Plan(deletes=(DeletePod("x", "phantom", "1"),))
    bench.decide = lambda observed, now: delete if observed.pods else Plan()
    await bench.controller.worker.handle(KEY)
    assert [applied for _, applied in bench.applier.applied] == [Plan()]
    assert bench.cache.pods_of(JobUid("lab", "job-uid")) == []


async def test_a_pod_whose_deletion_no_watch_has_told_of_is_looked_for(bench: Bench) -> None:
    bench.put()
    leaving = pod_body(uid="leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.cache.put_created_pod(leaving)
    bench.gatherer.live_pods = [leaving]
    seconds = [0, 1, 2, 3, 6, 13]
    bench.clock = iter([NOW + timedelta(seconds=passed) for passed in (0, 1, 2, 2, 3, 6, 6, 13)])
    reads = []
    for _ in seconds:
        await bench.controller.worker.handle(KEY)
        reads.append(bench.gatherer.live_reads)
    # It still leaves: the looks become rarer, and each is followed by another.
    assert reads == [0, 0, 1, 1, 2, 2]
    assert bench.next_look_seconds() == pytest.approx(1.0, abs=0.11)

    bench.gatherer.live_pods = []
    bench.clock = itertools.repeat(NOW + timedelta(seconds=14))
    await bench.controller.worker.handle(KEY)
    assert bench.cache.pods_of(JobUid("lab", "job-uid")) == []
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.live_reads == 3


async def test_a_job_that_is_gone_by_now_is_left_alone(bench: Bench) -> None:
    bench.put()
    bench.gatherer.live_job = None
    bench.decide = lambda observed, now: CREATE
    await bench.controller.worker.handle(KEY)
    assert bench.applier.applied == []
    assert bench.cache.jobs.get(KEY) is None


async def test_a_waiting_job_that_no_watch_tells_is_gone_holds_nothing(bench: Bench) -> None:
    bench.put()
    bench.decide = lambda observed, now: Plan(asks_for_links=True)
    await bench.controller.worker.handle(KEY)
    assert KEY in bench.shares.jobs()
    bench.gatherer.live_job = None
    bench.decide = lambda observed, now: CREATE
    await bench.controller.worker.handle(KEY)
    assert bench.shares.jobs() == {}


def _put_movers(bench: Bench, *pods: KubeObject) -> None:
    for pod in pods:
        bench.cache.put_created_pod(pod)


SENDER, RECEIVER, CLEANER = (pod_body(role, uid=role) for role in ("sender", "receiver", "cleaner"))


async def test_movers_that_a_job_left_without_an_owner_are_stopped_when_it_is_gone(bench: Bench) -> None:
    bench.put()
    _put_movers(bench, *map(orphaned, (SENDER, RECEIVER, CLEANER)))
    bench.cache.put_pod(orphaned(pod_body("sender", attempt=7, uid="forged")))
    bench.cache.drop_job(KEY, "job-uid")
    bench.gatherer.live_job = None
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == ["sender", "receiver"]


async def test_a_cleaner_that_a_job_left_without_an_owner_is_removed_once_it_has_ended(bench: Bench) -> None:
    bench.put()
    _put_movers(bench, orphaned(pod_body("cleaner", uid="cleaner", phase="Succeeded")))
    bench.cache.drop_job(KEY, "job-uid")
    bench.gatherer.live_job = None
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == ["cleaner"]


async def test_what_is_left_of_a_job_that_was_gone_before_the_start_is_removed(bench: Bench) -> None:
    bench.cache.put_pod(orphaned(pod_body("cleaner", uid="cleaner", phase="Succeeded")))
    assert bench.cache.jobs_of_strays() == {KEY}
    bench.gatherer.live_job = None
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == ["cleaner"]


async def test_movers_whose_owner_is_taken_away_later_than_their_job_are_stopped_too(bench: Bench) -> None:
    bench.put()
    _put_movers(bench, SENDER, RECEIVER)
    bench.cache.drop_job(KEY, "job-uid")
    bench.gatherer.live_job = None
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == [], "the garbage collector removes them"
    later = orphaned(SENDER)
    later["metadata"]["resourceVersion"] = "11"
    bench.cache.put_pod(later)
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == ["sender"]


async def test_movers_without_an_owner_are_stopped_where_only_a_live_read_shows_that_their_job_is_gone(bench: Bench) -> None:
    bench.put()
    bench.gatherer.live_pods = [orphaned(SENDER)]
    _put_movers(bench, orphaned(SENDER))
    bench.gatherer.live_job = None
    bench.decide = lambda observed, now: CREATE
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == ["sender"]


async def test_movers_of_a_job_that_a_live_read_finds_are_not_stopped(bench: Bench) -> None:
    """As when a namespace's jobs could not be listed, and count as gone."""
    bench.put()
    _put_movers(bench, orphaned(SENDER))
    bench.cache.drop_job(KEY, "job-uid")
    await bench.controller.worker.handle(KEY)
    assert bench.applier.stopped == []


def unrecorded(attempt: int, *, gated: bool = True) -> dict[str, Any]:
    """A receiver whose creation no status has."""
    body = pod_body(attempt=attempt, uid="late", node=None, phase="Pending")
    body["spec"]["schedulingGates"] = [{"name": names.GATE_RECORDED}] if gated else []
    return body


class TestWhatWasAskedForLate:
    """The operator before may have sent a request that is carried out when its attempt has ended."""

    async def test_those_of_an_attempt_that_ends_soon_after_the_start_are_removed_once_more(self, bench: Bench) -> None:
        bench.late_requests.begin(NOW)
        bench.put()
        bench.decide = lambda observed, now: Plan(ended_credentials=(DeleteCredentials(2),))
        bench.clock = itertools.repeat(NOW + timedelta(seconds=20))
        assert await bench.controller.reconcile(KEY) == timedelta(seconds=40)
        bench.decide = lambda observed, now: Plan()
        bench.clock = itertools.repeat(NOW + timedelta(seconds=60))
        assert await bench.controller.reconcile(KEY) is None
        await bench.controller.reconcile(KEY)
        removed = [plan.ended_credentials for _, plan in bench.applier.applied]
        assert removed == [(DeleteCredentials(2),), (DeleteCredentials(2),), ()]

    @pytest.mark.parametrize(
        ("pod", "is_removed"),
        [
            (unrecorded(attempt=2), True),
            (unrecorded(attempt=3), False),
            (unrecorded(attempt=2, gated=False), False),
            (pod_body(attempt=2, uid="recorded"), False),
        ],
        ids=["made when the attempt had ended", "of an attempt that may go on", "it may run", "recorded"],
    )
    async def test_pods_that_nobody_recorded_go_with_them(self, bench: Bench, pod: dict[str, Any], *, is_removed: bool) -> None:
        bench.late_requests.begin(NOW)
        bench.put(pods=["recorded"])
        bench.decide = lambda observed, now: Plan(ended_credentials=(DeleteCredentials(2),))
        await bench.controller.reconcile(KEY)
        bench.decide = lambda observed, now: Plan()
        bench.cache.put_pod(pod)
        bench.clock = itertools.repeat(NOW + timedelta(seconds=61))
        await bench.controller.reconcile(KEY)
        removed = [(each.uid, each.resource_version) for each in bench.applier.applied[-1][1].deletes]
        assert removed == ([("late", "10")] if is_removed else [])

    async def test_a_removal_that_fails_is_due_again(self, bench: Bench) -> None:
        bench.late_requests.begin(NOW)
        bench.put()
        bench.decide = lambda observed, now: Plan(ended_credentials=(DeleteCredentials(2),))
        await bench.controller.reconcile(KEY)
        bench.decide = lambda observed, now: Plan()
        bench.clock = itertools.repeat(NOW + timedelta(seconds=61))
        bench.applier.failures = [UnavailableError("etcd is away")]
        with pytest.raises(UnavailableError):
            await bench.controller.reconcile(KEY)
        await bench.controller.reconcile(KEY)
        assert bench.applier.applied[-1][1].ended_credentials == (DeleteCredentials(2),)

    @pytest.mark.parametrize(
        ("started", "ended"),
        [(None, NOW), (NOW - timedelta(seconds=1), NOW), (NOW, NOW + timedelta(seconds=61))],
        ids=["another operator leads", "the job is newer", "no request is under way any more"],
    )
    async def test_others_are_not(self, bench: Bench, started: datetime | None, ended: datetime) -> None:
        if started is not None:
            bench.late_requests.begin(started)
        bench.put()
        bench.decide = lambda observed, now: Plan(ended_credentials=(DeleteCredentials(2),))
        bench.clock = itertools.repeat(ended)
        assert await bench.controller.reconcile(KEY) is None

    async def test_those_of_another_job_of_the_name_are_not(self, bench: Bench) -> None:
        bench.late_requests.begin(NOW)
        bench.put()
        bench.decide = lambda observed, now: Plan(ended_credentials=(DeleteCredentials(2),))
        await bench.controller.reconcile(KEY)
        bench.put(uid="new", version="7")
        bench.decide = lambda observed, now: Plan()
        bench.clock = itertools.repeat(NOW + timedelta(seconds=61))
        await bench.controller.reconcile(KEY)
        assert bench.applier.applied[-1][1].ended_credentials == ()


async def test_a_new_job_under_the_name_of_one_that_is_gone_has_its_pass(bench: Bench) -> None:
    bench.put(uid="old")
    bench.gatherer.live_job = None
    bench.decide = lambda observed, now: CREATE
    bench.gatherer.on_read = lambda: bench.cache.put_job(job_body(uid="new", version="7"))
    await bench.controller.worker.handle(KEY)
    assert bench.applier.applied == []
    assert bench.next_look_seconds() is not None


FAILURE = FailureStatus(attempt=1, reason="MoverDied", message="pod receiver is gone", time=NOW)


@pytest.mark.parametrize(
    "status",
    [TransferJobStatus(last_failure=FAILURE), TransferJobStatus(failures=1), TransferJobStatus(last_failure=FAILURE, failures=1)],
    ids=["one end has failed", "counted", "both"],
)
async def test_an_attempt_is_not_called_failed_by_the_watch_alone(bench: Bench, status: TransferJobStatus) -> None:
    bench.put(pods=["receiver"])
    bench.gatherer.live_pods = [pod_body(uid="receiver")]
    bench.decide = lambda observed, now: Plan() if observed.pods else Plan(status=status)
    await bench.controller.worker.handle(KEY)
    assert [plan for _, plan in bench.applier.applied] == [Plan()]


async def test_a_pod_that_no_list_shows_any_more_is_read_by_its_name_before_an_attempt_fails(bench: Bench) -> None:
    bench.put(pods=["receiver", "sender"])
    bench.gatherer.live_pods = [pod_body(uid="receiver")]
    bench.gatherer.unlisted_pods = [pod_body("sender", uid="sender")]
    bench.decide = lambda observed, now: Plan() if len(observed.pods) == 2 else Plan(status=TransferJobStatus(failures=1))
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.listed == {"receiver"}
    assert [plan for _, plan in bench.applier.applied] == [Plan()]


async def test_after_a_conflict_the_next_pass_begins_with_a_live_read(bench: Bench) -> None:
    bench.put(version="5")
    bench.applier.failures = [ConflictError("old")]
    await bench.controller.worker.handle(KEY)
    assert bench.errors("Conflict") == 1
    assert bench.next_look_seconds() == pytest.approx(1.0, abs=0.11)
    bench.gatherer.live_job = job_body(version="9")
    await bench.controller.worker.handle(KEY)
    assert bench.applier.applied == [("9", Plan())]
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.live_reads == 1


async def test_failures_in_a_row_back_off_and_success_forgets_them(bench: Bench) -> None:
    bench.put()
    delays = []
    for _ in range(5):
        bench.applier.failures = [UnavailableError("down")]
        await bench.controller.worker.handle(KEY)
        delays.append(bench.next_look_seconds())
        assert await bench.queue.get() == KEY
        bench.queue.done(KEY)
    assert delays == pytest.approx([1, 2, 4, 8, 8], abs=0.11)
    await bench.controller.worker.handle(KEY)
    bench.applier.failures = [UnavailableError("down")]
    await bench.controller.worker.handle(KEY)
    assert bench.next_look_seconds() == pytest.approx(1.0, abs=0.11)


async def test_obeys_the_servers_retry_after(bench: Bench) -> None:
    bench.put()
    bench.applier.failures = [ThrottledError("later", retry_after_seconds=17)]
    await bench.controller.worker.handle(KEY)
    assert bench.next_look_seconds() == pytest.approx(17.0, abs=0.11)


def _creates_unless_refused(bench: Bench) -> list[str]:
    """Has each decision create a mover unless it is told of a refusal; returns what each was told, as it comes."""
    told: list[str] = []

    def decide(observed: Observed, now: datetime) -> Plan:
        told.append(observed.refusal)
        return Plan() if observed.refusal else CREATE

    bench.decide = decide
    return told


async def test_a_refusal_is_told_to_the_next_pass_and_to_that_one_alone(bench: Bench) -> None:
    bench.put()
    told = _creates_unless_refused(bench)
    bench.applier.failures = [RefusedError("exceeded quota")]
    for _ in range(3):
        await bench.controller.worker.handle(KEY)
    assert told == ["", "", "exceeded quota", "", ""]
    assert bench.errors("Refused") == 1


async def test_a_refusal_is_told_once_also_where_that_pass_fails_for_another_reason(bench: Bench) -> None:
    bench.put()
    told = _creates_unless_refused(bench)
    bench.applier.failures = [RefusedError("exceeded quota"), ForbiddenError("not this Secret")]
    for _ in range(3):
        await bench.controller.worker.handle(KEY)
    assert told[-1] == ""
    assert bench.applier.applied[-1][1].creates == CREATE.creates


@pytest.mark.parametrize(("error", "kind"), [(BuildError("no"), "Build"), (ZeroDivisionError("no"), "Internal")])
async def test_a_defect_of_ours_is_counted_logged_and_retried(
    bench: Bench, caplog: pytest.LogCaptureFixture, error: Exception, kind: str
) -> None:
    bench.put()
    bench.applier.failures = [error]
    with caplog.at_level(logging.ERROR):
        await bench.controller.worker.handle(KEY)
    assert bench.errors(kind) == 1
    assert "TransferJob lab/job" in caplog.text
    assert bench.next_look_seconds() is not None


async def test_a_job_that_cannot_be_read_waits_for_its_owner(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    broken = job_body()
    broken["spec"]["network"] = "Carrier pigeon"
    bench.cache.put_job(broken)
    with caplog.at_level(logging.ERROR):
        await bench.controller.worker.handle(KEY)
    assert bench.errors("InvalidResource") == 1
    assert "spec.network" in caplog.text
    assert bench.next_look_seconds() is None
    (told,) = bench.applier.told
    assert {(each["type"], each["status"], each["reason"]) for each in told} == {
        ("Accepted", "False", "InvalidSpec"),
        ("Reconciling", "False", "InvalidSpec"),
        ("Stalled", "True", "InvalidSpec"),
    }
    assert all("spec.network" in each["message"] for each in told)
    # Once is enough.
    bench.cache.put_job({**broken, "metadata": broken["metadata"] | {"resourceVersion": "2"}, "status": {"conditions": told}})
    await bench.controller.worker.handle(KEY)
    assert len(bench.applier.told) == 1


async def test_a_job_that_cannot_be_read_is_let_go_once_its_movers_have_ended(bench: Bench) -> None:
    broken = job_body(pods=["pod-uid"], deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[names.FINALIZER])
    broken["spec"] = {"network": "Carrier pigeon"}
    bench.cache.put_job(broken)
    bench.gatherer.live_job, bench.gatherer.live_pods = broken, [pod_body()]
    await bench.controller.worker.handle(KEY)
    ((_, first),) = bench.applier.applied
    assert ([each.uid for each in first.deletes], first.finalizer) == (["pod-uid"], None)
    assert bench.next_look_seconds() == pytest.approx(3.0, abs=0.11)
    bench.gatherer.live_pods = []
    await bench.controller.worker.handle(KEY)
    _, last = bench.applier.applied[-1]
    assert last.finalizer is False
    assert [event.reason for event in last.events] == ["CleanupSkipped"]
    assert ".fairlead-job-uid" in last.events[0].message
    assert bench.applier.told == []


async def test_a_deleted_job_in_a_dying_namespace_is_let_go(bench: Bench) -> None:
    bench.put(deletionTimestamp="2026-01-01T00:00:00Z")
    bench.applier.failures = [NamespaceTerminatingError("dying")]
    bench.decide = lambda observed, now: CREATE
    await bench.controller.worker.handle(KEY)
    assert [plan for _, plan in bench.applier.applied] == [Plan(finalizer=False)]


async def test_a_live_job_in_a_dying_namespace_waits_for_its_own_deletion(bench: Bench) -> None:
    bench.put()
    bench.applier.failures = [NamespaceTerminatingError("dying")]
    bench.decide = lambda observed, now: CREATE
    await bench.controller.worker.handle(KEY)
    assert bench.applier.applied == []
    assert bench.errors("NamespaceTerminating") == 0


async def test_a_deleted_job_is_let_go_where_its_dying_namespace_took_the_operators_rights_along(bench: Bench) -> None:
    bench.put(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[names.FINALIZER])
    bench.put_namespace(deletionTimestamp="2026-01-01T00:00:00Z")
    bench.gatherer.refusal = ForbiddenError('User "fairlead" cannot list resource "pods"')
    bench.decide = lambda observed, now: Plan(deletes=(DeletePod("receiver", "uid", "1"),))
    await bench.controller.worker.handle(KEY)
    assert [plan for _, plan in bench.applier.applied] == [Plan(finalizer=False)]
    assert bench.errors("Forbidden") == 0


@pytest.mark.parametrize("namespace", [{}, None], ids=["lives", "is not known"])
async def test_a_deleted_job_is_held_while_rights_are_missing_in_a_namespace_that(bench: Bench, namespace: dict[str, Any] | None) -> None:
    bench.put(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[names.FINALIZER])
    if namespace is not None:
        bench.put_namespace(**namespace)
    bench.gatherer.refusal = ForbiddenError('User "fairlead" cannot list resource "pods"')
    bench.decide = lambda observed, now: Plan(deletes=(DeletePod("receiver", "uid", "1"),))
    await bench.controller.worker.handle(KEY)
    assert bench.applier.applied == []
    assert bench.errors("Forbidden") == 1


async def test_two_jobs_decided_at_the_same_time_see_each_others_ports(bench: Bench) -> None:
    seen: list[frozenset[int]] = []
    release, both_decided = asyncio.Event(), asyncio.Event()

    class SlowApplier(FakeApplier):
        async def apply(self, body: KubeObject, job: TransferJob, plan: Plan) -> None:
            await release.wait()

    bench.controller._applier = cast(Applier, SlowApplier())
    bodies = {name: job_body(name, uid=f"{name}-uid") for name in ("one", "two")}
    for body in bodies.values():
        bench.cache.put_job(body)

    async def read_job(namespace: str, name: str, uid: str) -> KubeObject:
        return bodies[name]

    bench.gatherer.read_job = read_job  # type: ignore[method-assign]

    def decide(observed: Observed, now: datetime) -> Plan:
        taken = frozenset(observed.ports_in_use.placed.get("dtn-b", frozenset()))
        seen.append(taken)
        if len(seen) == 4:
            both_decided.set()
        return Plan(creates=(CreatePod(Role.RECEIVER, 1, "dtn-b", 24000 if 24000 not in taken else 24004),))

    bench.decide = decide
    passes = [asyncio.create_task(bench.controller.worker.handle(ObjectKey("lab", name))) for name in ("one", "two")]
    await asyncio.wait_for(both_decided.wait(), timeout=60)
    await asyncio.sleep(0)
    assert bench.cache.ports.in_use(NOBODY).placed["dtn-b"] == {24000, 24004}
    release.set()
    await asyncio.gather(*passes)
    assert bench.cache.ports.in_use(NOBODY).placed["dtn-b"] == frozenset()


async def test_workers_end_when_the_queue_closes_and_survive_bad_keys(bench: Bench) -> None:
    bench.put()
    bench.applier.failures = [RuntimeError("bad"), KubeError("worse")]
    decided = asyncio.Semaphore(0)

    def decide(observed: Observed, now: datetime) -> Plan:
        decided.release()
        return Plan()

    bench.decide = decide
    worker = asyncio.create_task(bench.controller.worker.run())
    for _ in range(3):
        bench.queue.add(KEY)
        await asyncio.wait_for(decided.acquire(), timeout=60)
    bench.queue.close()
    await asyncio.wait_for(worker, timeout=60)
    assert len(bench.applier.applied) == 1
    assert bench.errors("Internal") == 1


_DONE = Condition(type="Succeeded", status="True", reason="Verified", message="", last_transition_time=NOW)
_FAILED = Condition(type="Failed", status="True", reason="BackoffLimitExceeded", message="", last_transition_time=NOW)
_OBSERVED = Observed(job=TransferJob.from_object(job_body()))


def _of(status: TransferJobStatus, **metadata: Any) -> Observed:
    return Observed(job=TransferJob.from_object(job_body(**metadata)).model_copy(update={"status": status}))


@pytest.mark.parametrize(
    ("plan", "needed"),
    [
        (Plan(), False),
        (Plan(requeue_after=timedelta(seconds=1)), False),
        (Plan(status=TransferJobStatus(phase="Pending")), False),
        (Plan(status=TransferJobStatus(conditions=(_DONE,))), False),
        (Plan(status=TransferJobStatus(conditions=(_FAILED,))), True),
        (Plan(status=TransferJobStatus(conditions=(_DONE,), failures=1)), True),
        (replace(CREATE, finalizer=True), False),
        (replace(CREATE, finalizer=True, deletes=(DeletePod("x", "y", "1"),)), True),
        (Plan(finalizer=False), True),
        (Plan(delete_job=True), True),
        (CREATE, True),
        (Plan(deletes=(DeletePod("x", "y", "1"),)), True),
    ],
)
async def test_what_cannot_be_taken_back_needs_live_facts(plan: Plan, needed: bool) -> None:
    assert needs_live_facts(_OBSERVED, plan) is needed


async def test_a_job_that_is_finished_already_needs_no_live_facts_to_say_so_again() -> None:
    job = _OBSERVED.job.model_copy(update={"status": TransferJobStatus(conditions=(_FAILED,))})
    assert not needs_live_facts(replace(_OBSERVED, job=job), Plan(status=TransferJobStatus(conditions=(_FAILED,))))


_BEGUN = TransferJobStatus(attempts=1)
_SUCCEEDED = TransferJobStatus(conditions=(_DONE,))
_POD = read_owned_pod(pod_body())


@pytest.mark.parametrize(
    ("observed", "plan", "needed"),
    [
        (_OBSERVED, replace(CREATE, finalizer=True), False),
        (_of(_BEGUN), replace(CREATE, finalizer=True), True),
        (replace(_OBSERVED, pods=(_POD.pod,) if _POD else ()), replace(CREATE, finalizer=True), True),
        (Observed(job=TransferJob.from_object(job_body(pods=["pod-uid"]))), replace(CREATE, finalizer=True), True),
        (_of(_SUCCEEDED), Plan(finalizer=False), False),
        (_of(_SUCCEEDED), Plan(finalizer=False, deletes=(DeletePod("x", "y", "1"),)), True),
        (_of(_SUCCEEDED, deletionTimestamp="2026-01-01T00:00:00Z"), Plan(finalizer=False), True),
    ],
)
async def test_what_is_refused_if_the_job_has_changed_needs_none_where_it_follows_from_the_job_alone(
    observed: Observed, plan: Plan, needed: bool
) -> None:
    assert needs_live_facts(observed, plan) is needed


async def test_a_new_job_is_begun_at_the_version_that_was_seen(bench: Bench) -> None:
    bench.put(version="5")
    bench.gatherer.live_job = job_body(version="9")
    begin = replace(CREATE, finalizer=True)
    bench.decide = lambda observed, now: begin
    await bench.controller.worker.handle(KEY)
    assert bench.gatherer.live_reads == 0
    assert bench.applier.applied == [("5", begin)]


async def test_a_sender_that_is_about_to_be_created_holds_its_path_before_another_worker_can_look(bench: Bench) -> None:
    endpoint = MoverEndpoint("data0", "198.19.0.2", 24000)
    seen: list[Probing] = []

    def decide(observed: Observed, now: datetime) -> Plan:
        assert observed.path is not None
        seen.append(observed.path.probing)
        return Plan(creates=(CreatePod(Role.SENDER, 1, "dtn-a", 24004, endpoint, probe=observed.path.probing is Probing.OWN),))

    bench.decide = decide
    for name in ("one", "two"):
        bench.put(name=name, uid=f"uid-{name}")
        pod = pod_body(job=name, job_uid=f"uid-{name}", uid=f"pod-{name}")
        bench.cache.put_created_pod(pod)
        bench.gatherer.live_pods = [pod]
        await bench.controller.reconcile(ObjectKey("lab", name))
    assert seen[0] is Probing.OWN
    assert seen[-1] is Probing.LEASED
    bench.cache.drop_job(ObjectKey("lab", "one"), "uid-one")
    await bench.controller.reconcile(ObjectKey("lab", "one"))
    await bench.controller.reconcile(ObjectKey("lab", "two"))
    assert seen[-1] is Probing.OWN
