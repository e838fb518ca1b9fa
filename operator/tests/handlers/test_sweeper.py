from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, orphaned, pod_body

from fairlead.api import names
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.queue import WorkQueue
from fairlead.handlers.sweeper import Sweeper
from fairlead.handlers.worker import NotHealthyError
from fairlead.kube.client import JOBS, NAMESPACES, PODS, POLICIES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError, UnavailableError
from fairlead.kube.observe.pods import OwnedPod

pytestmark = pytest.mark.asyncio


class FakeLists:
    """Serves lists in pages of one object."""

    def __init__(self) -> None:
        self.objects: dict[ResourceKind, list[KubeObject]] = {JOBS: [], PODS: []}
        self.selectors: list[str | None] = []
        self.deleted: list[tuple[str, str | None]] = []
        self.failures: list[Exception] = []
        self.refused: set[tuple[ResourceKind, str | None]] = set()
        self.refusal: Exception | None = None
        self.listed_twice = asyncio.Event()
        self.version = "1000"
        self.between_pages: Callable[[], object] = lambda: None

    async def list_pages(
        self,
        resource: ResourceKind,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        on_version: Callable[[str], None] = lambda version: None,
    ) -> AsyncIterator[list[KubeObject]]:
        if self.failures:
            raise self.failures.pop()
        if (resource, namespace) in self.refused:
            raise ForbiddenError("no rights there")
        self.selectors.append(label_selector)
        if len(self.selectors) > len((POLICIES, NAMESPACES, PODS, JOBS)):
            self.listed_twice.set()
        on_version(self.version)
        for body in list(self.objects.get(resource, [])):
            self.between_pages()
            if namespace in (None, body["metadata"].get("namespace")):
                yield [body]

    async def delete(self, resource: ResourceKind, namespace: str, name: str, *, uid: str | None, grace_seconds: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.deleted.append((name, uid))
        self.objects[resource] = [body for body in self.objects[resource] if body["metadata"]["uid"] != uid]


class Bench:
    def __init__(self, namespaces: Sequence[str] = ()) -> None:
        self.timers = FakeTimers()
        self.lists = FakeLists()
        self.cache = Cache()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(self.timers)
        self.metrics = OperatorMetrics()
        client = cast(KubeClient, self.lists)
        clocks = {"monotonic": self.timers.time, "wall": lambda: 1234.0}
        self.leads = True
        self.let_go: list[str] = []
        self.let_go_failures: list[Exception] = []
        self.stopped: list[str] = []
        self.sweeper = Sweeper(
            client,
            self.cache,
            self.queue,
            self.metrics,
            **clocks,
            namespaces=namespaces,
            retry_seconds=0.0,
            after_gap_seconds=0.0,
            leads=lambda: self.leads,
            let_go=self._let_go,
            stop=self._stop,
        )

    async def _let_go(self, body: KubeObject) -> None:
        if self.let_go_failures:
            raise self.let_go_failures.pop()
        self.let_go.append(body["metadata"]["name"])

    async def _stop(self, stray: OwnedPod) -> None:
        self.stopped.append(stray.pod.uid)

    async def queued(self) -> set[ObjectKey]:
        keys = set()
        while self.queue.depth:
            keys.add(await self.queue.get())
        return keys

    def figure(self, name: str, **labels: Any) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_fills_the_cache_and_queues_every_job(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a", pods=["pod-uid"]), job_body("b", uid="b")], PODS: [pod_body(job="a", job_uid="a")]}
    await bench.sweeper.sweep()
    assert len(bench.cache.jobs) == 2
    assert len(bench.cache.pods_of(JobUid("lab", "a"))) == 1
    assert await bench.queued() == {ObjectKey("lab", "a"), ObjectKey("lab", "b")}


async def test_jobs_with_news_are_looked_at_at_once_and_the_others_one_after_the_other(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body(name, uid=name) for name in "abcd"], PODS: []}
    await bench.sweeper.sweep(10.0)
    assert await bench.queued() == {ObjectKey("lab", name) for name in "abcd"}
    bench.queue = bench.sweeper._queue = WorkQueue(bench.timers)  # type: ignore[assignment]
    bench.lists.objects[JOBS][1]["metadata"]["resourceVersion"] = "900"
    await bench.sweeper.sweep(9.0)
    assert await bench.queued() == {ObjectKey("lab", "a"), ObjectKey("lab", "b")}
    bench.timers.advance(3.5)
    assert await bench.queued() == {ObjectKey("lab", "c")}
    bench.timers.advance(3.0)
    assert await bench.queued() == {ObjectKey("lab", "d")}


async def test_lists_only_pods_that_are_labelled_as_ours(bench: Bench) -> None:
    await bench.sweeper.sweep()
    assert bench.lists.selectors == [None, None, "app.kubernetes.io/managed-by=fairlead-operator,fairlead.io/transferjob-uid", None]


async def test_forgets_phantoms_and_queues_the_jobs_they_belonged_to(bench: Bench) -> None:
    bench.cache.put_job(job_body("a", uid="a"))
    bench.cache.put_job(job_body("gone", uid="gone"))
    bench.cache.put_created_pod(pod_body(job="a", job_uid="a"))
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: []}
    await bench.sweeper.sweep()
    assert bench.cache.pods_of(JobUid("lab", "a")) == []
    assert bench.cache.jobs.keys() == [ObjectKey("lab", "a")]
    # Of the job that is gone too: what it left behind has to be dropped.
    assert await bench.queued() == {ObjectKey("lab", "a"), ObjectKey("lab", "gone")}
    assert bench.figure("fairlead_operator_phantoms_swept_total") == 2


async def test_what_a_watch_shows_during_the_list_is_kept(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a")]}
    bench.lists.between_pages = lambda: bench.cache.put_job(job_body("new", uid="new"))
    await bench.sweeper.sweep()
    assert set(bench.cache.jobs.keys()) == {ObjectKey("lab", "a"), ObjectKey("lab", "new")}


async def test_what_a_watch_shows_to_be_gone_during_the_list_stays_gone(bench: Bench) -> None:
    pod = pod_body(job="a", job_uid="a", version="10")
    bench.cache.put_job(job_body("a", uid="a", version="10", pods=["pod-uid"]))
    bench.cache.put_pod(pod)
    bench.lists.objects = {JOBS: [job_body("a", uid="a", version="10")], PODS: [pod]}

    def delete() -> None:
        bench.cache.drop_pod(ObjectKey("lab", pod["metadata"]["name"]), "pod-uid", "12")
        bench.cache.drop_job(ObjectKey("lab", "a"), "a", "13")

    bench.lists.between_pages = delete
    await bench.sweeper.sweep()
    assert len(bench.cache.pods) == 0
    assert len(bench.cache.jobs) == 0


async def test_an_old_list_does_not_drop_what_is_newer(bench: Bench) -> None:
    bench.cache.put_job(job_body("a", uid="a", version="1001"))
    bench.lists.objects = {JOBS: []}
    await bench.sweeper.sweep()
    assert bench.cache.jobs.keys() == [ObjectKey("lab", "a")]
    bench.lists.version = "1001"
    await bench.sweeper.sweep()
    assert bench.cache.jobs.keys() == []


async def test_data_that_were_restored_need_a_new_start(bench: Bench) -> None:
    """What is known is newer than all that lists and watches show from then on."""
    service = bench.sweeper.service(300.0)
    versions = ["1000", "900", "1001", "400", "500"]
    healthy = []
    for bench.lists.version in versions:
        await bench.sweeper.sweep()
        try:
            service.check()
        except NotHealthyError as error:
            assert "restoration" in str(error)
            healthy.append(False)
        else:
            healthy.append(True)
    assert healthy == [True, True, True, True, False]


async def test_an_object_that_cannot_be_taken_in_does_not_keep_the_others_from_it(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    odd_job, odd_pod = job_body("odd", uid="odd"), pod_body(job="a", job_uid="a", uid="odd")
    odd_job["spec"]["destination"] = "a street"
    odd_pod["spec"]["containers"] = 3
    good = pod_body("sender", job="a", job_uid="a", uid="good")
    bench.lists.objects = {JOBS: [odd_job, job_body("a", uid="a", pods=["good"])], PODS: [odd_pod, good]}
    await bench.sweeper.sweep()
    assert [pod.uid for pod in bench.cache.pods_of(JobUid("lab", "a"))] == ["good"]
    assert ObjectKey("lab", "a") in set(bench.cache.jobs.keys())
    assert f"pods lab/{odd_pod['metadata']['name']} cannot be taken in" in caplog.text
    assert bench.figure("fairlead_operator_reconcile_errors_total", kind="Internal") >= 1
    assert bench.sweeper.seconds_since_success() is not None


@pytest.mark.parametrize("failure", [UnavailableError("down"), ZeroDivisionError("a defect")])
async def test_the_sweeper_goes_on_after_a_failure(bench: Bench, failure: Exception) -> None:
    bench.lists.failures = [failure, failure]
    running = asyncio.create_task(bench.sweeper.run(0.0))
    await bench.lists.listed_twice.wait()
    running.cancel()
    assert bench.figure("fairlead_operator_reconcile_errors_total", kind=_kind(failure)) == 2
    assert bench.sweeper.seconds_since_success() is not None


async def test_what_was_deleted_while_no_watch_went_on_is_found_at_once_and_nothing_else_is_looked_at(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: []}
    for name in ("a", "gone"):
        bench.cache.put_job(job_body(name, uid=name))
    running = asyncio.create_task(bench.sweeper.run(300.0))
    await asyncio.sleep(0)
    assert bench.sweeper.seconds_since_success() is None
    bench.sweeper.note_gap()
    assert await bench.queue.get() == ObjectKey("lab", "gone")
    running.cancel()
    assert set(bench.cache.jobs.keys()) == {ObjectKey("lab", "a")}
    bench.timers.advance(300.0)
    assert bench.queue.depth == 0


async def test_a_list_after_a_gap_counts_for_no_pod_that_nobody_recorded(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [_new_pod()]}
    await bench.sweeper.sweep()
    running = asyncio.create_task(bench.sweeper.run(300.0))
    for _ in range(2):
        bench.lists.listed_twice.clear()
        bench.sweeper.note_gap()
        await bench.lists.listed_twice.wait()
    running.cancel()
    assert bench.lists.deleted == []
    await bench.sweeper.sweep()
    assert bench.lists.deleted != []


async def test_gaps_without_end_keep_no_sweep_from_being_made(bench: Bench) -> None:
    bench.cache.put_job(job_body())
    bench.lists.objects = {JOBS: [job_body()], PODS: []}
    running = asyncio.create_task(bench.sweeper.run(0.0))
    bench.sweeper.note_gap()
    await bench.lists.listed_twice.wait()
    running.cancel()
    # Jobs of which there is nothing new are looked at by a sweep alone.
    assert await bench.queue.get() == ObjectKey("lab", "job")


def _kind(failure: Exception) -> str:
    return failure.kind if isinstance(failure, KubeError) else "Internal"


async def test_a_list_that_fails_changes_nothing_and_is_no_success(bench: Bench) -> None:
    bench.cache.put_job(job_body())
    bench.lists.failures = [UnavailableError("down")]
    with pytest.raises(UnavailableError):
        await bench.sweeper.sweep()
    assert len(bench.cache.jobs) == 1
    assert bench.sweeper.seconds_since_success() is None


async def test_says_how_old_the_last_complete_list_is(bench: Bench) -> None:
    await bench.sweeper.sweep()
    bench.timers.advance(42.0)
    assert bench.sweeper.seconds_since_success() == 42.0
    assert bench.figure("fairlead_operator_last_list_timestamp_seconds") == 1234.0


def _new_pod(uid: str = "pod-uid", **fields: Any) -> dict[str, Any]:
    """One with the gate with which each mover is created."""
    body = pod_body(job="a", job_uid="a", uid=uid, phase="Pending", **{"node": None, **fields})
    body["spec"]["schedulingGates"] = [{"name": names.GATE_RECORDED}]
    return body


async def test_a_new_pod_that_nobody_recorded_is_removed_by_the_second_list_that_has_it(bench: Bench) -> None:
    stranded = _new_pod()
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [stranded]}
    await bench.sweeper.sweep()
    assert bench.lists.deleted == [], "its creation may be under way"
    await bench.sweeper.sweep()
    assert bench.lists.deleted == [(stranded["metadata"]["name"], "pod-uid")]
    await bench.sweeper.sweep()
    assert len(bench.lists.deleted) == 1


async def test_who_does_not_lead_removes_nothing(bench: Bench) -> None:
    bench.leads = False
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [_new_pod()]}
    for _ in range(3):
        await bench.sweeper.sweep()
    assert bench.lists.deleted == []


async def test_a_pod_that_cannot_be_removed_keeps_no_job_from_being_looked_at(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [_new_pod()]}
    await bench.sweeper.sweep()
    await bench.queued()
    bench.lists.refusal = UnavailableError("down")
    bench.lists.objects[JOBS].append(job_body("new", uid="new"))
    with pytest.raises(UnavailableError):
        await bench.sweeper.sweep()
    assert ObjectKey("lab", "new") in await bench.queued()


async def test_another_new_pod_of_the_same_name_is_given_the_same_time(bench: Bench) -> None:
    for number in range(3):
        bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [_new_pod(f"pod-{number}")]}
        await bench.sweeper.sweep()
    assert bench.lists.deleted == []


@pytest.mark.parametrize(
    ("job", "pod"),
    [
        (job_body("a", uid="a", pods=["pod-uid"]), _new_pod()),
        (job_body("a", uid="another"), _new_pod()),
        (job_body("b", uid="b"), _new_pod()),
        (job_body("a", uid="a"), _new_pod(node="dtn-b")),
        (job_body("a", uid="a"), pod_body(job="a", job_uid="a", node=None)),
        (job_body("a", uid="a"), {**_new_pod(), "metadata": {**_new_pod()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ],
    ids=["recorded", "of an earlier job of the name", "of a job that is gone", "placed", "without the gate", "being deleted"],
)
async def test_other_pods_are_not_removed(bench: Bench, job: dict[str, Any], pod: dict[str, Any]) -> None:
    bench.lists.objects = {JOBS: [job], PODS: [pod]}
    for _ in range(3):
        await bench.sweeper.sweep()
    assert bench.lists.deleted == []


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
HELD = {**DELETED, "finalizers": [names.FINALIZER]}


def _elsewhere(name: str, **metadata: Any) -> dict[str, Any]:
    return job_body(name, uid=name, namespace="left", **metadata)


async def test_deleted_jobs_of_a_namespace_that_is_not_served_any_more_are_let_go() -> None:
    bench = Bench(["lab"])
    kept = [
        job_body("served", uid="served", **HELD),
        _elsewhere("alive", finalizers=[names.FINALIZER]),
        _elsewhere("anothers", **{**DELETED, "finalizers": ["example.com/theirs"]}),
    ]
    bench.lists.objects = {JOBS: [*kept, _elsewhere("a", **HELD), _elsewhere("b", **HELD)], PODS: []}
    await bench.sweeper.sweep()
    assert bench.let_go == ["a", "b"]
    assert bench.cache.jobs.keys() == [ObjectKey("lab", "served")]


async def test_only_who_leads_and_serves_some_namespaces_alone_lets_jobs_elsewhere_go() -> None:
    everywhere, standing_by = Bench(), Bench(["lab"])
    standing_by.leads = False
    for bench in (everywhere, standing_by):
        bench.lists.objects = {JOBS: [_elsewhere("a", **HELD)], PODS: []}
        await bench.sweeper.sweep()
        assert bench.let_go == []


@pytest.mark.parametrize("failure", [NotFoundError("gone"), ConflictError("changed"), ForbiddenError("no rights")])
async def test_a_job_elsewhere_that_cannot_be_let_go_keeps_no_other_one(failure: Exception) -> None:
    bench = Bench(["lab"])
    bench.lists.objects = {JOBS: [_elsewhere("a", **HELD), _elsewhere("b", **HELD)], PODS: []}
    bench.let_go_failures = [failure]
    await bench.sweeper.sweep()
    assert bench.let_go == ["b"]


def _stranded(role: str = "sender", uid: str = "stranded", **fields: Any) -> dict[str, Any]:
    return orphaned(pod_body(role, job="gone", job_uid="gone", uid=uid, **fields))


async def test_movers_without_an_owner_are_stopped_when_two_lists_in_a_row_lack_their_job(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [job_body("gone", uid="another")], PODS: [_stranded(), _stranded("receiver", "receiver", phase="Pending")]}
    await bench.sweeper.sweep()
    assert bench.stopped == []
    bench.leads = False
    await bench.sweeper.sweep()
    assert bench.stopped == [], "another operator leads"
    bench.leads = True
    await bench.sweeper.sweep()
    assert bench.stopped == ["stranded", "receiver"]


@pytest.mark.parametrize(
    "pod",
    [
        orphaned(pod_body("sender", job="a", job_uid="a")),
        pod_body("sender", job="gone", job_uid="gone"),
        _stranded("cleaner"),
        _stranded(phase="Succeeded"),
        {**_stranded(), "metadata": {**_stranded()["metadata"], **DELETED}},
    ],
    ids=["its job lives", "it names its owner", "it cleans up", "it has ended", "it is being deleted"],
)
async def test_other_movers_are_not_stopped(bench: Bench, pod: dict[str, Any]) -> None:
    bench.lists.objects = {JOBS: [job_body("a", uid="a")], PODS: [pod]}
    for _ in range(3):
        await bench.sweeper.sweep()
    assert bench.stopped == []


async def test_a_cleaner_without_an_owner_is_removed_when_it_has_ended_and_its_job_is_gone(bench: Bench) -> None:
    bench.lists.objects = {JOBS: [], PODS: [_stranded("cleaner", phase="Succeeded")]}
    for _ in range(2):
        await bench.sweeper.sweep()
    assert bench.stopped == ["stranded"]


@pytest.mark.parametrize(
    ("namespaces", "kept"),
    [([{"name": "lab"}], ["a"]), ([{"name": "lab", "deletionTimestamp": "2026-01-01T00:00:00Z"}], []), ([], [])],
    ids=["it is there", "it is being deleted", "it is gone"],
)
async def test_jobs_of_a_namespace_that_cannot_be_listed_stay_known_unless_it_goes(
    namespaces: list[dict[str, str]], kept: list[str]
) -> None:
    bench = Bench(["lab", "other"])
    bench.lists.objects = {JOBS: [job_body("a", uid="a"), job_body("b", uid="b", namespace="other")], PODS: []}
    await bench.sweeper.sweep()
    bench.lists.objects = {
        JOBS: [],
        PODS: [],
        NAMESPACES: [{"metadata": {"uid": "1", "resourceVersion": "1", **each}} for each in namespaces],
    }
    bench.lists.refused = {(JOBS, "lab")}
    await bench.sweeper.sweep()
    assert [key.name for key, _ in bench.cache.jobs.items()] == kept


async def test_movers_of_a_namespace_whose_jobs_cannot_be_listed_are_not_stopped() -> None:
    bench = Bench(["lab", "other"])
    bench.lists.objects = {JOBS: [], PODS: [_stranded(), _stranded(uid="others", namespace="other")]}
    bench.lists.refused = {(JOBS, "lab")}
    for _ in range(2):
        await bench.sweeper.sweep()
    assert bench.stopped == ["others"]
