from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from kube_objects import TEMPLATE, UID, job_body

from fairlead.api import names
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.observed import Role
from fairlead.core.plan import AnnotatePod, CreateCredentials, CreatePod, DeleteCredentials, DeletePod, EmitEvent, Plan
from fairlead.core.reports import MoverEndpoint
from fairlead.kube.apply import Applier, credentials_lifetime
from fairlead.kube.client import KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECEIVER = CreatePod(Role.RECEIVER, 1, "dtn-b", 24000)


class FakeClient:
    """Remembers requests; fails those that the test names by `verb resource`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.failures: dict[str, KubeError] = {}
        self.stored: dict[str, KubeObject] = {}
        self.version = 100

    def _note(self, verb: str, resource: str, detail: Any) -> None:
        self.requests.append((verb, resource, detail))
        if f"{verb} {resource}" in self.failures:
            raise self.failures[f"{verb} {resource}"]

    async def get(self, resource: ResourceKind, namespace: str, name: str) -> KubeObject:
        self._note("get", resource.plural, name)
        return self.stored[name]

    async def create(self, resource: ResourceKind, namespace: str, body: KubeObject) -> KubeObject:
        self._note("create", resource.plural, body)
        return body

    async def merge_patch(
        self, resource: ResourceKind, namespace: str, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        self._note("patch", f"{resource.plural}/{subresource}" if subresource else resource.plural, body)
        self.version += 1
        return job_body(resourceVersion=str(self.version), finalizers=body["metadata"].get("finalizers", []))

    async def delete(self, resource: ResourceKind, namespace: str, name: str, **preconditions: Any) -> None:
        self._note("delete", resource.plural, {"name": name, **preconditions})

    def steps(self) -> list[str]:
        return [f"{verb} {resource}" for verb, resource, _ in self.requests]

    def bodies(self, step: str) -> list[Any]:
        return [detail for verb, resource, detail in self.requests if f"{verb} {resource}" == step]


class Bench:
    def __init__(self) -> None:
        self.client = FakeClient()
        self.jobs: list[KubeObject] = []
        self.pods: list[KubeObject] = []
        self.applier = Applier(
            cast(KubeClient, self.client), TEMPLATE, lambda: NOW, on_job=self.jobs.append, on_pod=self.pods.append, instance="test"
        )

    async def apply(self, plan: Plan, **metadata: Any) -> None:
        body = job_body(**metadata)
        await self.applier.apply(body, TransferJob.from_object(body), plan)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_an_empty_plan_sends_nothing(bench: Bench) -> None:
    await bench.apply(Plan())
    assert bench.client.requests == []


async def test_steps_come_in_an_order_that_a_crash_cannot_spoil(bench: Bench) -> None:
    plan = Plan(
        finalizer=True,
        credentials=(CreateCredentials(1),),
        deletes=(DeletePod("old", "u", "3"),),
        ended_credentials=(DeleteCredentials(0),),
        creates=(RECEIVER, CreatePod(Role.SENDER, 1, "dtn-a", 24004, MoverEndpoint("data0", "198.19.0.2", 24000))),
        annotations=(AnnotatePod("p", "u", {"a": "b"}),),
        status=TransferJobStatus(phase="Pending"),
        events=(EmitEvent("Accepted", "fine"),),
    )
    await bench.apply(plan)
    assert bench.client.steps() == [
        "patch transferjobs",
        "create secrets",
        "delete pods",
        "delete secrets",
        "create pods",
        "create pods",
        "patch pods",
        "patch transferjobs/status",
        "create events",
    ]


async def test_nothing_follows_a_step_that_failed(bench: Bench) -> None:
    bench.client.failures["create secrets"] = UnavailableError("down")
    with pytest.raises(UnavailableError):
        await bench.apply(Plan(finalizer=True, credentials=(CreateCredentials(1),), creates=(RECEIVER,)))
    assert bench.client.steps() == ["patch transferjobs", "create secrets"]


class TestFinalizer:
    async def test_is_added_beside_those_of_others_at_the_version_that_was_read(self, bench: Bench) -> None:
        await bench.apply(Plan(finalizer=True), finalizers=["example.com/theirs"])
        (patch,) = bench.client.bodies("patch transferjobs")
        assert patch == {"metadata": {"resourceVersion": "7", "finalizers": ["example.com/theirs", names.FINALIZER]}}

    async def test_is_removed_last_and_leaves_those_of_others(self, bench: Bench) -> None:
        plan = Plan(finalizer=False, deletes=(DeletePod("old", "u", "3"),), events=(EmitEvent("CleanupSkipped", "x", warning=True),))
        await bench.apply(plan, finalizers=[names.FINALIZER, "example.com/theirs"])
        assert bench.client.steps() == ["delete pods", "create events", "patch transferjobs"]
        assert bench.client.bodies("patch transferjobs")[0]["metadata"]["finalizers"] == ["example.com/theirs"]

    @pytest.mark.parametrize(("held", "present"), [(True, [names.FINALIZER]), (False, [])])
    async def test_that_is_as_wanted_is_not_written(self, bench: Bench, held: bool, present: list[str]) -> None:
        await bench.apply(Plan(finalizer=held), finalizers=present)
        assert bench.client.requests == []

    async def test_of_a_job_that_is_gone_needs_no_removal(self, bench: Bench) -> None:
        bench.client.failures["patch transferjobs"] = NotFoundError("gone")
        await bench.apply(Plan(finalizer=False, delete_job=True), finalizers=[names.FINALIZER])
        assert bench.client.steps() == ["patch transferjobs", "delete transferjobs"]

    async def test_conflicts_are_for_the_next_pass(self, bench: Bench) -> None:
        bench.client.failures["patch transferjobs"] = ConflictError("old")
        with pytest.raises(ConflictError):
            await bench.apply(Plan(finalizer=True))


class TestCreation:
    async def test_a_secret_that_exists_is_ours_and_is_never_read(self, bench: Bench) -> None:
        bench.client.failures["create secrets"] = AlreadyExistsError("there")
        await bench.apply(Plan(credentials=(CreateCredentials(1),)))
        assert bench.client.steps() == ["create secrets"]

    async def test_a_pod_that_exists_is_adopted_if_it_belongs_to_this_job(self, bench: Bench) -> None:
        name = names.child_name("run42", UID, "receiver", 1)
        ours = {"metadata": {"name": name, "ownerReferences": [{"uid": UID, "controller": True}]}}
        bench.client.stored[name] = ours
        bench.client.failures["create pods"] = AlreadyExistsError("there")
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.pods == [ours]

    @pytest.mark.parametrize("owners", [[], [{"uid": "another", "controller": True}], [{"uid": UID, "controller": False}]])
    async def test_a_pod_of_somebody_else_is_a_conflict_of_names(self, bench: Bench, owners: list[dict[str, Any]]) -> None:
        name = names.child_name("run42", UID, "receiver", 1)
        bench.client.stored[name] = {"metadata": {"name": name, "ownerReferences": owners}}
        bench.client.failures["create pods"] = AlreadyExistsError("there")
        with pytest.raises(RefusedError, match=name):
            await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.pods == []

    @pytest.mark.parametrize("error", [ForbiddenError("exceeded quota"), InvalidError("no such field")])
    @pytest.mark.parametrize("resource", ["secrets", "pods"])
    async def test_a_refusal_is_told_apart_from_other_missing_rights(self, bench: Bench, resource: str, error: KubeError) -> None:
        bench.client.failures[f"create {resource}"] = error
        with pytest.raises(RefusedError, match=str(error)):
            await bench.apply(Plan(credentials=(CreateCredentials(1),), creates=(RECEIVER,), status=TransferJobStatus(phase="Pending")))
        assert "patch transferjobs/status" not in bench.client.steps()

    async def test_a_pod_that_is_refused_leaves_no_credentials_behind(self, bench: Bench) -> None:
        bench.client.failures["create pods"] = ForbiddenError("exceeded quota")
        with pytest.raises(RefusedError, match="exceeded quota"):
            await bench.apply(Plan(credentials=(CreateCredentials(1),), creates=(RECEIVER,)))
        assert bench.client.steps() == ["create secrets", "create pods", "delete secrets"]

    async def test_a_created_pod_is_known_at_once(self, bench: Bench) -> None:
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert [pod["metadata"]["name"] for pod in bench.pods] == [names.child_name("run42", UID, "receiver", 1)]


class TestDeletion:
    async def test_of_credentials_goes_by_the_attempts_name(self, bench: Bench) -> None:
        await bench.apply(Plan(ended_credentials=(DeleteCredentials(3),)))
        assert bench.client.bodies("delete secrets") == [{"name": names.credentials_name("run42", UID, 3)}]

    async def test_of_credentials_that_are_gone_is_done(self, bench: Bench) -> None:
        bench.client.failures["delete secrets"] = NotFoundError("gone")
        await bench.apply(Plan(ended_credentials=(DeleteCredentials(3), DeleteCredentials(4))))
        assert bench.client.steps() == ["delete secrets", "delete secrets"]

    async def test_names_the_incarnation_and_the_version(self, bench: Bench) -> None:
        await bench.apply(Plan(deletes=(DeletePod("p", "u", "3"),)))
        assert bench.client.bodies("delete pods") == [{"name": "p", "uid": "u", "resource_version": "3"}]

    async def test_of_what_is_gone_is_done(self, bench: Bench) -> None:
        bench.client.failures["delete pods"] = NotFoundError("gone")
        await bench.apply(Plan(deletes=(DeletePod("p", "u", "3"), DeletePod("q", "u", "4"))))
        assert bench.client.steps() == ["delete pods", "delete pods"]

    async def test_of_the_job_comes_last_and_names_the_version_that_our_own_write_made(self, bench: Bench) -> None:
        await bench.apply(Plan(status=TransferJobStatus(phase="Failed"), delete_job=True))
        assert bench.client.steps() == ["patch transferjobs/status", "delete transferjobs"]
        assert bench.client.bodies("delete transferjobs") == [{"name": "run42", "uid": UID, "resource_version": "101"}]


class TestStatus:
    async def test_is_written_at_the_version_that_was_read_and_only_where_it_differs(self, bench: Bench) -> None:
        body = job_body() | {"status": {"phase": "Pending", "attempts": 1, "startTime": "2026-01-01T00:00:00Z", "conditions": []}}
        job = TransferJob.from_object(body)
        await bench.applier.apply(body, job, Plan(status=job.status.model_copy(update={"attempts": 2, "start_time": None})))
        (patch,) = bench.client.bodies("patch transferjobs/status")
        assert patch == {"metadata": {"resourceVersion": "7"}, "status": {"attempts": 2, "startTime": None}}

    async def test_that_is_as_wanted_is_not_written(self, bench: Bench) -> None:
        body = job_body() | {"status": {"phase": "Pending", "conditions": []}}
        await bench.applier.apply(body, TransferJob.from_object(body), Plan(status=TransferJobStatus(phase="Pending")))
        assert bench.client.requests == []

    async def test_follows_the_version_that_the_finalizer_made(self, bench: Bench) -> None:
        await bench.apply(Plan(finalizer=True, status=TransferJobStatus(phase="Pending")))
        (patch,) = bench.client.bodies("patch transferjobs/status")
        assert patch["metadata"]["resourceVersion"] == "101"
        assert [body["metadata"]["resourceVersion"] for body in bench.jobs] == ["101", "102"]


class TestEvents:
    async def test_name_the_job_and_say_what_and_why(self, bench: Bench) -> None:
        await bench.apply(Plan(events=(EmitEvent("Failed", "x" * 5000, warning=True),)))
        (event,) = bench.client.bodies("create events")
        assert event["involvedObject"]["uid"] == UID
        assert (event["type"], event["reason"], len(event["message"])) == ("Warning", "Failed", 1024)
        assert event["firstTimestamp"] == "2026-01-01T12:00:00Z"

    async def test_that_cannot_be_written_do_not_stop_the_pass(self, bench: Bench) -> None:
        bench.client.failures["create events"] = UnavailableError("down")
        await bench.apply(Plan(events=(EmitEvent("Failed", "x"),), finalizer=False), finalizers=[names.FINALIZER])
        assert bench.client.steps() == ["create events", "patch transferjobs"]


async def test_annotations_are_set_on_this_incarnation_alone(bench: Bench) -> None:
    await bench.apply(Plan(annotations=(AnnotatePod("p", "u", {names.ANNOTATION_EGRESS_BANDWIDTH: "1G", "gone": None}),)))
    assert bench.client.bodies("patch pods") == [
        {"metadata": {"uid": "u", "annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: "1G", "gone": None}}}
    ]


@pytest.mark.parametrize(
    ("deadline_seconds", "started", "lifetime"),
    [
        (None, None, None),
        (7200, None, timedelta(hours=3)),
        (7200, NOW - timedelta(minutes=90), timedelta(minutes=90)),
        (7200, NOW - timedelta(hours=5), timedelta(hours=1)),
    ],
    ids=["no deadline", "first attempt", "later attempt", "deadline over"],
)
async def test_credentials_live_for_what_is_left_of_the_deadline_and_an_hour(
    deadline_seconds: int | None, started: datetime | None, lifetime: timedelta | None
) -> None:
    body = job_body()
    body["spec"] |= {} if deadline_seconds is None else {"activeDeadlineSeconds": deadline_seconds}
    body["status"] = TransferJobStatus(start_time=started).to_object()
    assert credentials_lifetime(TransferJob.from_object(body), NOW) == lifetime
