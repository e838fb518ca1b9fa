"""One look at queued jobs: what is asked of the API server for each state of a job and its Workload."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from handler_objects import job_body

from fairlead.core.queueing import BANDWIDTH, QUEUE_LABEL
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.kueue import WORKLOADS, KueueQueues
from fairlead.kube.client import JOBS, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, KubeError, NotFoundError

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SUSPENDED = {
    "conditions": [
        {"type": "Suspended", "status": "True", "reason": "Suspended", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
}
SUCCEEDED = {
    "conditions": [
        {"type": "Succeeded", "status": "True", "reason": "Verified", "message": "all", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
}
NAME = "transferjob-job-uid"


class StandInClient:
    """Workloads by name, and what was asked for. `failures` are raised by the next requests, one each."""

    def __init__(self, *workloads: KubeObject) -> None:
        self.workloads = {each["metadata"]["name"]: each for each in workloads}
        self.created: list[KubeObject] = []
        self.patches: list[tuple[ResourceKind, str, KubeObject, str | None]] = []
        self.failures: list[KubeError] = []

    async def get(self, resource: ResourceKind, namespace: str | None, name: str) -> KubeObject:
        if self.failures:
            raise self.failures.pop(0)
        if name not in self.workloads:
            raise NotFoundError(f"no workload {name}")
        return self.workloads[name]

    async def create(self, resource: ResourceKind, namespace: str | None, body: KubeObject) -> KubeObject:
        assert (resource, namespace) == (WORKLOADS, "lab")
        self.created.append(body)
        return body

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        if self.failures:
            raise self.failures.pop(0)
        self.patches.append((resource, name, body, subresource))
        return body


def queued(status: dict[str, Any] | None = None, name: str = "job", **spec: Any) -> KubeObject:
    body = job_body(name, f"{name}-uid", labels={QUEUE_LABEL: "bulk"})
    return body | {"spec": body["spec"] | {"bandwidth": {"limit": "600M"}, **spec}, "status": status or {}}


def workload(*true: str, holds_quota: bool = False) -> KubeObject:
    conditions = [{"type": kind, "status": "True"} for kind in true]
    status = {"conditions": conditions, **({"admission": {"clusterQueue": "uplink"}} if holds_quota else {})}
    return {"metadata": {"name": NAME, "namespace": "lab", "resourceVersion": "7"}, "spec": {}, "status": status}


async def look(client: StandInClient, *jobs: KubeObject) -> None:
    await KueueQueues(client, lambda: map(KnownJob.of, jobs), lambda: NOW).look()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("job", "workloads", "suspend"),
    [
        (queued(), (), True),
        (queued(SUSPENDED, suspend=True), (workload("Admitted", holds_quota=True),), False),
        (queued(), (workload("Admitted", "Evicted", holds_quota=True),), True),
    ],
)
async def test_a_job_is_suspended_until_it_is_admitted_and_again_when_it_is_evicted(
    job: KubeObject, workloads: tuple[KubeObject, ...], suspend: bool
) -> None:
    client = StandInClient(*workloads)
    await look(client, job)
    # With the UID: another job of the same name is left alone.
    assert client.patches == [(JOBS, "job", {"metadata": {"uid": "job-uid"}, "spec": {"suspend": suspend}}, None)]


async def test_a_job_that_stands_still_asks_for_its_bandwidth() -> None:
    client = StandInClient()
    await look(client, queued(SUSPENDED, suspend=True, priority=50))
    (made,) = client.created
    assert (made["metadata"]["name"], made["spec"]["queueName"], made["spec"]["priority"]) == (NAME, "bulk", 50)
    (container,) = made["spec"]["podSets"][0]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {BANDWIDTH: "600M"}


async def test_a_job_without_a_bandwidth_asks_for_nothing() -> None:
    client = StandInClient()
    await look(client, queued(SUSPENDED, suspend=True, bandwidth=None))
    assert (client.created, client.patches) == ([], [])


async def test_bandwidth_is_given_back_once_the_movers_of_an_evicted_job_have_stopped() -> None:
    client = StandInClient(workload("Admitted", "Evicted", "QuotaReserved", holds_quota=True))
    await look(client, queued(SUSPENDED, suspend=True))
    ((resource, name, patch, subresource),) = client.patches
    assert (resource, name, subresource) == (WORKLOADS, NAME, "status")
    assert (patch["metadata"], patch["status"]["admission"]) == ({"resourceVersion": "7"}, None)
    known = {each["type"]: each["status"] for each in patch["status"]["conditions"]}
    assert known == {"Evicted": "True", "QuotaReserved": "False", "Admitted": "False", "Requeued": "True"}


async def test_kueue_is_told_that_a_job_has_ended() -> None:
    client = StandInClient(workload("Admitted", holds_quota=True))
    await look(client, queued(SUCCEEDED))
    ((_, _, patch, subresource),) = client.patches
    (finished,) = (each for each in patch["status"]["conditions"] if each["type"] == "Finished")
    assert (finished["status"], finished["reason"], finished["lastTransitionTime"], subresource) == (
        "True",
        "Succeeded",
        "2026-01-02T03:04:05Z",
        "status",
    )


async def test_jobs_without_a_queue_of_others_or_that_cannot_be_read_are_left_alone() -> None:
    client = StandInClient()
    broken = queued(name="broken", source="nonsense")
    await look(client, job_body("free", "free-uid"), queued(name="foreign", managedBy="example.com/other"), broken)
    assert (client.created, client.patches) == ([], [])


async def test_an_error_with_one_job_does_not_keep_the_others_waiting(caplog: pytest.LogCaptureFixture) -> None:
    client = StandInClient()
    client.failures.append(ConflictError("the object was changed"))
    await look(client, queued(name="first"), queued(name="second"))
    assert [name for _, name, _, _ in client.patches] == ["second"]
    assert "lab/first" in caplog.text
    await look(client, queued(name="first"))
    assert [name for _, name, _, _ in client.patches] == ["second", "first"]
