"""The one writer of NetworkPaths: two writes for a transfer, none for what is known, and no failure that reaches a job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import path_body

from fairlead.core.paths.model import Lease, Measurement, PathEnds, PathEvidence, PathProbe, PathTransfer
from fairlead.core.paths.objects import REFRESH
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.handlers.paths.service import PathService
from fairlead.handlers.paths.store import PathStore
from fairlead.kube.client import KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError, NotFoundError, UnavailableError

pytestmark = pytest.mark.asyncio

ENDS = PathEnds("dtn-a", "data0", "dtn-b", "data0")
KEY = ObjectKey("lab", "one")


class FakeServer:
    """The API server's part: names are unique, versions are preconditions, and a status is written apart from its object."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject] = {}
        self.writes: list[tuple[str, str]] = []
        self.failures: list[Exception] = []

    async def list_pages(self, resource: ResourceKind) -> AsyncIterator[list[KubeObject]]:
        self._fail()
        yield list(self.objects.values())

    async def create(self, resource: ResourceKind, namespace: str | None, body: KubeObject) -> KubeObject:
        self._fail()
        name = body["metadata"]["name"]
        if name in self.objects:
            raise AlreadyExistsError(f"{name} exists", status=409)
        self.writes.append(("create", name))
        made = {"metadata": {"uid": f"uid-{name}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}}
        self.objects[name] = {"metadata": {**body["metadata"], **made["metadata"], "resourceVersion": "1"}, "spec": body["spec"]}
        return self.objects[name]

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str
    ) -> KubeObject:
        self._fail()
        if name not in self.objects:
            raise NotFoundError(name, status=404)
        known = self.objects[name]
        if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            raise ConflictError(name, status=409)
        self.writes.append((f"patch {subresource}", name))
        status = {**known.get("status", {}), **body["status"]}
        version = str(int(known["metadata"]["resourceVersion"]) + 1)
        kept = {key: value for key, value in status.items() if value is not None}
        self.objects[name] = {**known, "metadata": {**known["metadata"], "resourceVersion": version}, "status": kept}
        return self.objects[name]

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


class Bench:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.timers = FakeTimers()
        self.metrics = OperatorMetrics()
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.woken: list[PathEnds] = []
        self.store = PathStore(self.woken.append)
        self.service = PathService(
            store=self.store, client=cast(KubeClient, self.server), metrics=self.metrics, timers=self.timers, now=lambda: self.now
        )

    def put(self, body: KubeObject) -> None:
        self.server.objects[body["metadata"]["name"]] = body

    def see(self, *, live: bool = True, lease: bool = False, probed: bool = False, done: bool = False, job: str = "one") -> None:
        measurement = Measurement(
            f"uid-{job}",
            1,
            probe=PathProbe(self.now, 0.06, 0.06, 0.0) if probed else None,
            transfer=PathTransfer(self.now, "cubic", 8, 2e8, 1.2e-6) if done else None,
        )
        held = Lease(f"uid-{job}", 1, self.now + timedelta(seconds=60)) if lease else None
        news = measurement if probed or done else None
        self.store.note(ObjectKey("lab", job), PathEvidence(f"uid-{job}", ENDS, live, live and not lease, held, news))

    def errors(self, kind: str) -> float:
        return self.metrics.registry.get_sample_value("fairlead_operator_reconcile_errors_total", {"kind": kind}) or 0.0

    def status(self, name: str = "a-b") -> dict[str, Any]:
        found: dict[str, Any] = self.server.objects[name].get("status", {})
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_transfer_on_a_known_path_costs_two_writes(bench: Bench) -> None:
    bench.put(path_body())
    await bench.service.refresh()
    bench.see(lease=True)
    assert await bench.service.keep(ENDS) is None
    assert bench.status()["lease"] == {"job": "uid-one", "attempt": 1, "expirationTime": "2026-01-01T12:01:00Z"}
    bench.now += timedelta(seconds=12)
    bench.see(probed=True)
    due = await bench.service.keep(ENDS)
    assert due == REFRESH - timedelta(seconds=12)
    bench.now += timedelta(seconds=48)
    bench.see(live=False, done=True)
    assert await bench.service.keep(ENDS) is None
    assert bench.server.writes == [("patch status", "a-b")] * 2
    status = bench.status()
    assert ("lease" in status, status["rtt"], status["capacity"], status["streamCoefficient"]) == (False, "60.000ms", "200M", "1.2")
    assert [point["job"] for point in status["profile"]] == ["uid-one"]
    assert bench.store.unwritten() == ()


async def test_a_transfer_on_a_new_path_costs_two_writes(bench: Bench) -> None:
    await bench.service.refresh()
    bench.see(lease=True)
    await bench.service.keep(ENDS)
    bench.see(probed=True)
    await bench.service.keep(ENDS)
    bench.see(live=False, done=True)
    await bench.service.keep(ENDS)
    (name,) = bench.server.objects
    assert bench.server.writes == [("create", name), ("patch status", name)]
    assert bench.status(name)["lastMeasuredTime"] == "2026-01-01T12:00:00Z"


async def test_the_same_report_again_is_not_written_again(bench: Bench) -> None:
    await bench.service.refresh()
    bench.see(live=False, probed=True, done=True)
    await bench.service.keep(ENDS)
    written = list(bench.server.writes)
    bench.store.drop(KEY)
    bench.see(live=False, probed=True, done=True)
    await bench.service.keep(ENDS)
    assert bench.server.writes == written


async def test_ends_of_which_an_interface_is_not_known_make_no_object(bench: Bench) -> None:
    await bench.service.refresh()
    bench.see(live=False, probed=True)
    assert await bench.service.keep(PathEnds("dtn-a", None, "dtn-b", "data0")) is None
    assert bench.server.writes == []


async def test_an_object_made_by_hand_is_used_and_its_spec_left_alone(bench: Bench) -> None:
    bench.put(path_body("mine", interfaces=False, capacity="10G"))
    await bench.service.refresh()
    bench.see(live=False, probed=True)
    await bench.service.keep(ENDS)
    assert bench.server.writes == [("patch status", "mine")]
    assert bench.server.objects["mine"]["spec"]["capacity"] == "10G"


async def test_the_younger_of_two_objects_for_the_same_ends_says_so_once(bench: Bench) -> None:
    young = path_body("young")
    young["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    bench.put(path_body("old"))
    bench.put(young)
    await bench.service.refresh()
    await bench.service.keep(ENDS)
    await bench.service.keep(ENDS)
    (condition,) = bench.status("young")["conditions"]
    assert (condition["reason"], condition["status"], "old" in condition["message"]) == ("OtherPathInUse", "False", True)
    assert bench.server.writes.count(("patch status", "young")) == 1


@pytest.mark.parametrize("error", [NotFoundError("no such kind", status=404), ForbiddenError("no right", status=403)])
async def test_without_the_kind_or_the_right_to_it_jobs_go_by_what_the_board_knows(bench: Bench, error: Exception) -> None:
    bench.server.failures = [error]
    await bench.service.refresh()
    bench.see(probed=True)
    assert await bench.service.keep(ENDS) is None
    assert bench.server.writes == []
    assert bench.store.unwritten() == (ENDS,)


async def _run_until(bench: Bench, done: Any) -> None:
    work = asyncio.create_task(bench.service.worker.run())
    try:
        for _ in range(400):
            if done():
                return
            bench.timers.advance(1.0)
            await asyncio.sleep(0)
        raise AssertionError(f"not reached; writes: {bench.server.writes}")
    finally:
        bench.service._queue.close()
        await work


async def test_what_could_not_be_kept_is_written_once_the_kind_is_there(bench: Bench) -> None:
    bench.server.failures = [NotFoundError("no such kind", status=404)]
    await bench.service.refresh()
    bench.see(live=False, probed=True)
    await bench.service.refresh()
    await _run_until(bench, lambda: len(bench.server.writes) == 2)
    assert [verb for verb, _ in bench.server.writes] == ["create", "patch status"]
    assert bench.store.unwritten() == ()


async def test_a_write_that_fails_is_counted_and_tried_again(bench: Bench) -> None:
    bench.put(path_body())
    await bench.service.refresh()
    bench.see(live=False, probed=True)
    bench.server.failures = [UnavailableError("down"), RuntimeError("a defect")]
    bench.service.wake(ENDS)
    await _run_until(bench, lambda: bool(bench.server.writes))
    assert (bench.errors("Unavailable"), bench.errors("Internal")) == (1, 1)


async def test_an_object_that_somebody_changed_meanwhile_is_read_again(bench: Bench) -> None:
    bench.put(path_body())
    await bench.service.refresh()
    bench.put(path_body(version="7", capacity="1G"))
    bench.see(live=False, probed=True)
    bench.service.wake(ENDS)
    await _run_until(bench, lambda: bool(bench.server.writes))
    path = bench.store.path_for(ENDS)
    assert path is not None
    assert path.spec.capacity == "1G"


async def test_an_object_that_was_deleted_meanwhile_is_made_again_with_what_is_new(bench: Bench) -> None:
    bench.put(path_body())
    await bench.service.refresh()
    bench.server.objects.clear()
    bench.see(live=False, probed=True)
    bench.service.wake(ENDS)
    await _run_until(bench, lambda: len(bench.server.writes) == 2)
    assert [verb for verb, _ in bench.server.writes] == ["create", "patch status"]


async def test_an_object_that_cannot_be_read_is_left_alone(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    spoilt = path_body("spoilt")
    spoilt["spec"]["capacity"] = "fast"
    bench.put(spoilt)
    bench.put(path_body())
    await bench.service.refresh()
    assert [path.metadata.name for path in bench.store.paths()] == ["a-b"]
    assert "NetworkPath spoilt cannot be read" in caplog.text
