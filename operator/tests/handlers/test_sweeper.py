from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, pod_body

from fairlead.api import names
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.queue import WorkQueue
from fairlead.handlers.sweeper import Sweeper
from fairlead.kube.client import JOBS, PODS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import UnavailableError

pytestmark = pytest.mark.asyncio


class FakeLists:
    """Serves lists in pages of one object."""

    def __init__(self) -> None:
        self.objects: dict[ResourceKind, list[KubeObject]] = {JOBS: [], PODS: []}
        self.selectors: list[str | None] = []
        self.deleted: list[tuple[str, str | None]] = []
        self.broken = False

    async def list_pages(
        self, resource: ResourceKind, namespace: str | None = None, *, label_selector: str | None = None
    ) -> AsyncIterator[list[KubeObject]]:
        if self.broken:
            raise UnavailableError("down")
        self.selectors.append(label_selector)
        for body in list(self.objects.get(resource, [])):
            yield [body]

    async def delete(self, resource: ResourceKind, namespace: str, name: str, *, uid: str | None, grace_seconds: int) -> None:
        self.deleted.append((name, uid))
        self.objects[resource] = [body for body in self.objects[resource] if body["metadata"]["uid"] != uid]


class Bench:
    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.lists = FakeLists()
        self.cache = Cache()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(self.timers)
        self.metrics = OperatorMetrics()
        client = cast(KubeClient, self.lists)
        self.sweeper = Sweeper(client, self.cache, self.queue, self.metrics, monotonic=self.timers.time, wall=lambda: 1234.0)

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
    assert await bench.queued() == {ObjectKey("lab", "a")}
    assert bench.figure("fairlead_operator_phantoms_swept_total") == 2


async def test_what_a_watch_shows_during_the_list_is_kept(bench: Bench) -> None:
    class Racing(FakeLists):
        async def list_pages(
            self, resource: ResourceKind, namespace: str | None = None, *, label_selector: str | None = None
        ) -> AsyncIterator[list[KubeObject]]:
            if resource is JOBS:
                bench.cache.put_job(job_body("new", uid="new"))
            yield []

    bench.sweeper._client = cast(KubeClient, Racing())
    await bench.sweeper.sweep()
    assert bench.cache.jobs.keys() == [ObjectKey("lab", "new")]


async def test_a_list_that_fails_changes_nothing_and_is_no_success(bench: Bench) -> None:
    bench.cache.put_job(job_body())
    bench.lists.broken = True
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
