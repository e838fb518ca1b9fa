from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from kube_objects import TEMPLATE, UID, job_body, pod_body

from fairlead.api import names
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.observed import Role
from fairlead.core.plan import AnnotatePod, CreateCredentials, CreatePod, DeleteCredentials, DeletePod, EmitEvent, Plan, ReleasePod
from fairlead.core.reports import MoverEndpoint
from fairlead.kube.apply import Applier, credentials_lifetime
from fairlead.kube.client import PODS, KubeClient, KubeObject, ResourceKind
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
from fairlead.kube.observe.pods import OwnedPod, read_owned_pod

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECEIVER = CreatePod(Role.RECEIVER, 1, "dtn-b", 24000)


class FakeClient:
    """Remembers requests; fails those that the test names by `verb resource`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.failures: dict[str, KubeError] = {}
        self.stored: dict[str, KubeObject] = {}
        self.undying: set[str] = set()
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
        if resource is not PODS:
            return body
        name = body["metadata"]["name"]
        if name in self.stored:
            raise AlreadyExistsError(f"{name} is there")
        self.stored[name] = {**body, "metadata": {**body["metadata"], "uid": f"uid-of-{name}"}}
        return self.stored[name]

    async def merge_patch(
        self, resource: ResourceKind, namespace: str, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        self._note("patch", f"{resource.plural}/{subresource}" if subresource else resource.plural, body)
        self.version += 1
        return job_body(resourceVersion=str(self.version), finalizers=body["metadata"].get("finalizers", []))

    async def delete(self, resource: ResourceKind, namespace: str, name: str, **preconditions: Any) -> None:
        self._note("delete", resource.plural, {"name": name, **preconditions})
        if resource is PODS and name not in self.undying:
            self.stored.pop(name, None)

    def steps(self) -> list[str]:
        return [f"{verb} {resource}" for verb, resource, _ in self.requests]

    def bodies(self, step: str) -> list[Any]:
        return [detail for verb, resource, detail in self.requests if f"{verb} {resource}" == step]


class Bench:
    def __init__(self) -> None:
        self.client = FakeClient()
        self.jobs: list[KubeObject] = []
        self.created: list[KubeObject] = []
        self.own: set[tuple[str, str, str]] = set()
        self.posted: list[KubeObject] | None = None
        self.applier = Applier(
            cast(KubeClient, self.client),
            TEMPLATE,
            lambda: NOW,
            on_job=self.jobs.append,
            on_created=self.created.append,
            is_created=lambda *pod: pod in self.own,
            hex_digits=lambda: "0123abcd",
            post=self.post,
            instance="test",
        )

    def post(self, event: KubeObject) -> bool:
        if self.posted is None:
            return False
        self.posted.append(event)
        return True

    async def apply(self, plan: Plan, **metadata: Any) -> None:
        body = job_body(**metadata)
        await self.applier.apply(body, TransferJob.from_object(body), plan)


def _stray() -> OwnedPod:
    owned = read_owned_pod(pod_body("sender", ownerReferences=[], annotations={names.ANNOTATION_JOB: "run42"}))
    assert owned is not None
    return owned


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
        "patch pods",
        "patch pods",
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
        assert patch == {"metadata": {"uid": UID, "resourceVersion": "7", "finalizers": ["example.com/theirs", names.FINALIZER]}}

    async def test_is_removed_last_and_leaves_those_of_others(self, bench: Bench) -> None:
        plan = Plan(finalizer=False, deletes=(DeletePod("old", "u", "3"),), events=(EmitEvent("CleanupSkipped", "x", warning=True),))
        await bench.apply(plan, finalizers=[names.FINALIZER, "example.com/theirs"])
        assert bench.client.steps() == ["delete pods", "create events", "patch transferjobs"]
        assert bench.client.bodies("patch transferjobs")[0]["metadata"]["finalizers"] == ["example.com/theirs"]

    async def test_goes_before_the_pods_that_prove_that_it_may_go(self, bench: Bench) -> None:
        plan = Plan(finalizer=False, proofs=(DeletePod("cleaner", "u", None),))
        await bench.apply(plan, finalizers=[names.FINALIZER])
        assert bench.client.steps() == ["patch transferjobs", "delete pods"]
        bench.client.failures["patch transferjobs"] = ConflictError("old")
        with pytest.raises(ConflictError):
            await bench.apply(plan, finalizers=[names.FINALIZER])
        assert bench.client.steps()[2:] == ["patch transferjobs"]

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

    async def test_of_a_job_that_is_not_served_goes_and_the_job_is_not_taken_in(self, bench: Bench) -> None:
        await bench.applier.let_go(job_body(finalizers=[names.FINALIZER, "example.com/theirs"]))
        assert bench.client.bodies("patch transferjobs") == [
            {"metadata": {"uid": UID, "resourceVersion": "7", "finalizers": ["example.com/theirs"]}}
        ]
        assert bench.jobs == []


class TestCreation:
    async def test_a_secret_that_exists_is_ours_and_is_never_read(self, bench: Bench) -> None:
        bench.client.failures["create secrets"] = AlreadyExistsError("there")
        await bench.apply(Plan(credentials=(CreateCredentials(1),)))
        assert bench.client.steps() == ["create secrets"]

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
        assert [pod["metadata"]["name"] for pod in bench.created] == [NAME]


NAME = names.child_name("run42", UID, "receiver", 1)
OTHER_NAME = "run42-0123abcd-receiver-1"
OWNER = {"uid": UID, "controller": True}
GATED = {"schedulingGates": [{"name": names.GATE_RECORDED}]}


def _present(*, uid: str = "present", owners: list[dict[str, Any]] | None = None, spec: dict[str, Any] | None = None) -> KubeObject:
    labels = {names.LABEL_ROLE: "receiver", names.LABEL_ATTEMPT: "1"}
    metadata = {"name": NAME, "uid": uid, "labels": labels, "ownerReferences": [OWNER] if owners is None else owners}
    return {"metadata": metadata, "spec": GATED if spec is None else spec}


class TestRecord:
    """A created pod is recorded by its UID before anything can place it."""

    async def test_the_uid_is_in_the_status_before_the_pod_is_released(self, bench: Bench) -> None:
        await bench.apply(Plan(creates=(RECEIVER,), status=TransferJobStatus(phase="Pending")))
        assert bench.client.steps() == ["create pods", "patch transferjobs/status", "patch pods"]
        (status,) = bench.client.bodies("patch transferjobs/status")
        assert status["status"]["pods"] == [{"uid": f"uid-of-{NAME}", "name": NAME, "role": "receiver", "attempt": 1}]
        assert bench.client.bodies("create pods")[0]["spec"]["schedulingGates"] == [{"name": names.GATE_RECORDED}]
        assert bench.client.bodies("patch pods") == [{"metadata": {"uid": f"uid-of-{NAME}"}, "spec": {"schedulingGates": None}}]

    async def test_it_is_written_even_if_the_status_has_no_other_news(self, bench: Bench) -> None:
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert [record["name"] for record in bench.client.bodies("patch transferjobs/status")[0]["status"]["pods"]] == [NAME]

    async def test_a_pod_whose_record_could_not_be_written_is_not_released_and_not_forgotten(self, bench: Bench) -> None:
        bench.client.failures["patch transferjobs/status"] = ConflictError("old")
        with pytest.raises(ConflictError):
            await bench.apply(Plan(creates=(RECEIVER,)))
        assert "patch pods" not in bench.client.steps()
        assert [pod["metadata"]["name"] for pod in bench.created] == [NAME]

    async def test_a_release_leaves_the_gates_of_others(self, bench: Bench) -> None:
        await bench.apply(Plan(releases=(ReleasePod("p", "u", ("example.com/quota",)),)))
        assert bench.client.bodies("patch pods") == [
            {"metadata": {"uid": "u"}, "spec": {"schedulingGates": [{"name": "example.com/quota"}]}}
        ]

    async def test_a_pod_that_is_gone_needs_no_release(self, bench: Bench) -> None:
        bench.client.failures["patch pods"] = NotFoundError("gone")
        await bench.apply(Plan(releases=(ReleasePod("p", "u"),)))


class TestNameThatIsTaken:
    async def test_by_a_pod_that_the_operator_created_is_that_pod(self, bench: Bench) -> None:
        bench.client.stored[NAME] = present = _present()
        bench.own.add(("physics", UID, "present"))
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.created == [present]

    async def test_by_a_pod_whose_creation_was_not_recorded_is_free_once_that_is_deleted(self, bench: Bench) -> None:
        bench.client.stored[NAME] = _present()
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.client.bodies("delete pods") == [{"name": NAME, "uid": "present", "grace_seconds": 0}]
        assert [pod["metadata"]["uid"] for pod in bench.created] == [f"uid-of-{NAME}"]

    @pytest.mark.parametrize("error", [NotFoundError("gone"), ConflictError("another"), ForbiddenError("not a mover's labels")])
    async def test_by_a_pod_that_does_not_go_is_left_to_it(self, bench: Bench, error: KubeError) -> None:
        bench.client.stored[NAME] = _present()
        bench.client.undying.add(NAME)
        bench.client.failures["delete pods"] = error
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert [pod["metadata"]["name"] for pod in bench.created] == [OTHER_NAME]

    @pytest.mark.parametrize(
        ("what", "present"),
        [
            ("somebody else's", _present(owners=[])),
            ("another job's", _present(owners=[{"uid": "another", "controller": True}])),
            ("not the job's as controller", _present(owners=[{"uid": UID, "controller": False}])),
            ("forged, and it runs", _present(spec={"nodeName": "dtn-b"})),
            ("forged, gated and placed", _present(spec={**GATED, "nodeName": "dtn-b"})),
            ("forged, with the gate of somebody else", _present(spec={"schedulingGates": [{"name": "example.com/quota"}]})),
        ],
    )
    async def test_is_left_to_a_pod_that_is(self, bench: Bench, what: str, present: KubeObject) -> None:
        bench.client.stored[NAME] = present
        await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.client.bodies("delete pods") == [], what
        assert [pod["metadata"]["name"] for pod in bench.created] == [OTHER_NAME]
        records = bench.client.bodies("patch transferjobs/status")[0]["status"]["pods"]
        assert [record["uid"] for record in records] == [f"uid-of-{OTHER_NAME}"]

    async def test_and_the_other_name_too_is_tried_again_by_the_next_pass(self, bench: Bench) -> None:
        bench.client.stored = {NAME: _present(owners=[]), OTHER_NAME: _present(owners=[])}
        with pytest.raises(AlreadyExistsError):
            await bench.apply(Plan(creates=(RECEIVER,)))
        assert bench.created == []


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

    async def test_of_a_mover_whose_job_is_gone_goes_by_its_uid_in_whatever_version(self, bench: Bench) -> None:
        stray = _stray()
        await bench.applier.stop(stray)
        assert bench.client.bodies("delete pods") == [{"name": stray.pod.name, "uid": "pod-uid"}]

    @pytest.mark.parametrize("failure", [NotFoundError("gone"), ConflictError("another one"), ForbiddenError("no mover any more")])
    async def test_of_a_mover_whose_job_is_gone_may_be_refused(self, bench: Bench, failure: KubeError) -> None:
        bench.client.failures["delete pods"] = failure
        await bench.applier.stop(_stray())
        assert bench.client.steps() == ["delete pods"]


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

    async def test_are_left_to_whoever_takes_them_in_their_order(self, bench: Bench) -> None:
        bench.posted = []
        await bench.apply(Plan(status=TransferJobStatus(phase="Pending"), events=(EmitEvent("Accepted", "x"), EmitEvent("Started", "y"))))
        assert bench.client.steps() == ["patch transferjobs/status"]
        assert [event["reason"] for event in bench.posted] == ["Accepted", "Started"]
        names_of = [event["metadata"]["name"] for event in bench.posted]
        assert names_of == sorted(set(names_of))

    async def test_of_a_job_that_is_let_go_are_written_before_it_goes(self, bench: Bench) -> None:
        bench.posted = []
        await bench.apply(Plan(events=(EmitEvent("CleanupSkipped", "x"),), finalizer=False), finalizers=[names.FINALIZER])
        assert bench.client.steps() == ["create events", "patch transferjobs"]

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


async def test_a_pod_that_may_not_be_changed_keeps_no_status_from_being_written(bench: Bench) -> None:
    bench.client.failures = {"patch pods": ForbiddenError("not a mover's labels"), "delete pods": ForbiddenError("not a mover's labels")}
    plan = Plan(
        deletes=(DeletePod("old", "old-uid", "3"),),
        annotations=(AnnotatePod("sender", "pod-uid", {names.ANNOTATION_EGRESS_BANDWIDTH: "1G"}),),
        status=TransferJobStatus(phase="Transferring"),
        events=(EmitEvent("Started", "text"),),
    )
    with pytest.raises(ForbiddenError):
        await bench.apply(plan)
    assert bench.client.steps() == ["delete pods", "patch pods", "patch transferjobs/status", "create events"]


async def test_a_secret_that_may_not_be_removed_keeps_no_status_from_being_written(bench: Bench) -> None:
    bench.client.failures = {"delete secrets": ForbiddenError("somebody's finalizer is on it")}
    plan = Plan(ended_credentials=(DeleteCredentials(1),), status=TransferJobStatus(phase="Succeeded"))
    with pytest.raises(ForbiddenError):
        await bench.apply(plan)
    assert bench.client.steps() == ["delete secrets", "patch transferjobs/status"]


async def test_a_secret_that_was_not_removed_is_tried_again_when_the_status_says_that_its_attempt_has_ended(bench: Bench) -> None:
    bench.client.failures = {"delete secrets": ForbiddenError("no such right for a while")}
    with pytest.raises(ForbiddenError):
        await bench.apply(Plan(ended_credentials=(DeleteCredentials(1),)))
    bench.client.failures = {}
    for _ in range(2):
        await bench.apply(Plan())
    assert bench.client.steps() == ["delete secrets", "delete secrets"]


async def test_a_secret_that_lost_its_owner_keeps_no_job_from_going(bench: Bench) -> None:
    bench.client.failures = {"delete secrets": ForbiddenError("denied by fairlead-secrets: it has no owner")}
    for plan in (Plan(ended_credentials=(DeleteCredentials(1),)), Plan()):
        await bench.apply(plan, deletionTimestamp="2026-01-01T00:00:00Z")
    assert bench.client.steps() == ["delete secrets"]


async def test_nothing_is_created_beside_a_pod_that_could_not_be_stopped(bench: Bench) -> None:
    bench.client.failures = {"delete pods": ForbiddenError("not a mover's labels")}
    with pytest.raises(ForbiddenError):
        await bench.apply(Plan(deletes=(DeletePod("old", "old-uid", "3"),), creates=(RECEIVER,)))
    assert bench.client.steps() == ["delete pods"]
