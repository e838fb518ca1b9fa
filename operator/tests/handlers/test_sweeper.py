from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body, pod_body

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
        self.broken = False

    async def list_pages(
        self, resource: ResourceKind, namespace: str | None = None, *, label_selector: str | None = None
    ) -> AsyncIterator[list[KubeObject]]:
        if self.broken:
            raise UnavailableError("down")
        self.selectors.append(label_selector)
        for body in list(self.objects.get(resource, [])):
            yield [body]


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
