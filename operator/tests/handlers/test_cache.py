from __future__ import annotations

from typing import Any, ClassVar

import pytest
from handler_objects import job_body, pod_body

from fairlead.api.names import child_name
from fairlead.core.observed import PodPhase, Role
from fairlead.handlers.cache import Cache, ObjectKey, Versions
from fairlead.handlers.port_ledger import JobUid
from fairlead.kube.observe.pods import read_owned_pod

KEY = ObjectKey("lab", "job")
JOB, OTHER = JobUid("lab", "job-uid"), JobUid("lab", "other")


def _version(cache: Cache) -> str | None:
    body = cache.job(KEY)
    return None if body is None else body["metadata"]["resourceVersion"]


def test_keeps_a_job_without_its_managed_fields() -> None:
    cache = Cache()
    assert cache.put_job(job_body()) == KEY
    body = cache.job(KEY)
    assert body is not None
    assert "managedFields" not in body["metadata"]
    assert body["status"] == {}


def test_an_event_that_lags_behind_our_own_write_does_not_turn_back_time() -> None:
    cache = Cache()
    cache.put_job(job_body(version="12"))
    cache.put_job(job_body(version="9"))
    assert _version(cache) == "12"
    cache.put_job(job_body(version="100"))
    assert _version(cache) == "100"


def test_a_new_job_of_the_same_name_replaces_the_old_one_and_is_not_replaced_by_it() -> None:
    cache = Cache()
    cache.put_job(job_body(version="3", uid="old"))
    cache.put_job(job_body(version="12", uid="new"))
    assert _version(cache) == "12"
    cache.put_job(job_body(version="9", uid="old"))
    assert _version(cache) == "12"


@pytest.mark.parametrize(("version", "is_known"), [("9", False), ("14", False), ("15", True)])
def test_a_job_that_has_gone_is_not_revived_by_what_is_older(version: str, is_known: bool) -> None:
    cache = Cache()
    cache.put_job(job_body(version="12"))
    cache.drop_job(KEY, "job-uid", "15")
    cache.put_job(job_body(version=version))
    assert (cache.jobs.get(KEY) is not None) is is_known


def test_what_went_long_ago_is_forgotten() -> None:
    versions: Versions[str] = Versions()
    for number in range(10_001):
        versions.drop(KEY, f"uid-{number}", "15")
    assert versions.put(KEY, "uid-0", "12", "seen again")
    assert not versions.put(ObjectKey("lab", "another"), "uid-1", "12", "")


def test_the_deletion_of_an_earlier_incarnation_leaves_the_present_one() -> None:
    cache = Cache()
    cache.put_job(job_body(uid="new"))
    cache.drop_job(KEY, "old")
    assert _version(cache) == "1"
    cache.drop_job(KEY, "new")
    assert _version(cache) is None


def test_pods_are_found_by_the_uid_of_their_job() -> None:
    cache = Cache()
    assert cache.put_created_pod(pod_body()) == KEY
    cache.put_created_pod(pod_body(role="sender", uid="other-pod"))
    cache.put_created_pod(pod_body(job="another", job_uid="another-uid", uid="third"))
    assert {pod.role for pod in cache.pods_of(JOB)} == {Role.RECEIVER, Role.SENDER}
    assert cache.pods_of(JobUid("lab", "nobody")) == []


def test_a_pod_that_is_not_ours_is_not_kept() -> None:
    cache = Cache()
    foreign = pod_body()
    foreign["metadata"]["ownerReferences"] = []
    assert cache.put_pod(foreign) is None
    assert len(cache.pods) == 0


@pytest.mark.parametrize("lost", ["ownerReferences", "labels"])
def test_a_pod_that_loses_its_owner_or_labels_stays_its_jobs(lost: str) -> None:
    cache = Cache()
    cache.put_created_pod(pod_body(phase="Running", version="10"))
    later = pod_body(phase="Failed", version="11")
    del later["metadata"][lost]
    assert cache.put_pod(later) == KEY
    assert [pod.phase for pod in cache.pods_of(JOB)] == [PodPhase.FAILED]
    another = pod_body(uid="another", version="12")
    del another["metadata"][lost]
    assert cache.put_pod(another) is None


def test_a_deleted_pod_is_forgotten_with_its_port() -> None:
    cache = Cache()
    cache.put_created_pod(pod_body())
    assert cache.ports.in_use(OTHER).placed["dtn-b"] == {24000}
    pod_key = cache.pods.keys()[0]
    assert cache.drop_pod(pod_key, "another-uid") is None
    assert cache.drop_pod(pod_key, "pod-uid") == KEY
    assert cache.pods_of(JOB) == []
    assert cache.ports.in_use(OTHER).placed.get("dtn-b", frozenset()) == frozenset()


def test_a_live_list_corrects_the_pods_of_a_job() -> None:
    cache = Cache()
    cache.put_job(job_body(pods=["phantom", "real"]))
    cache.put_pod(pod_body(attempt=1, uid="phantom"))
    live = read_owned_pod(pod_body(attempt=2, uid="real"))
    assert live is not None
    cache.replace_pods_of(JOB, [live])
    assert [pod.uid for pod in cache.pods_of(JOB)] == ["real"]


def test_phantoms_are_what_was_known_before_a_list_and_is_not_in_it() -> None:
    cache = Cache()
    for name in ("listed", "gone", "changed", "reborn"):
        cache.put_job(job_body(name, uid=f"{name}-1"))
    before = cache.jobs.snapshot()
    cache.put_job(job_body("changed", uid="changed-1", version="2"))
    cache.put_job(job_body("new", uid="new-1"))
    listed = {ObjectKey("lab", "listed"): "listed-1", ObjectKey("lab", "reborn"): "reborn-2"}
    assert cache.jobs.unlisted(before, listed) == [(ObjectKey("lab", "gone"), "gone-1"), (ObjectKey("lab", "reborn"), "reborn-1")]


class TestForgedPods:
    """A pod is a job's own by its UID, which the API server gave it when the operator created it. Everything else can be copied."""

    @pytest.mark.parametrize(
        ("what", "forged"),
        [
            ("in another namespace, with the UID of the job", {"namespace": "elsewhere", "uid": "forged"}),
            ("in another namespace, with the UIDs of job and pod", {"namespace": "elsewhere", "uid": "pod-uid"}),
            ("in the same namespace, of the next attempt", {"attempt": 2, "uid": "forged"}),
            ("in the same namespace, of the other role", {"role": "sender", "uid": "forged"}),
            ("in the same namespace, in the place of the deleted pod", {"uid": "forged", "version": "99"}),
        ],
    )
    @pytest.mark.parametrize("order", ["the job first", "the pod first"])
    def test_a_pod_is_not_the_jobs(self, what: str, forged: dict[str, Any], order: str) -> None:
        cache = Cache()
        if order == "the job first":
            cache.put_job(job_body(pods=["pod-uid"]))
        assert cache.put_pod(pod_body(**forged, base=25000)) is None, what
        cache.put_job(job_body(pods=["pod-uid"], version="2"))
        assert cache.pods_of(JOB) == []
        assert cache.ports.in_use(OTHER).placed.get("dtn-b", frozenset()) == frozenset()
        assert cache.ports.in_use(OTHER).of_namespace == {}

    def test_a_forged_pod_in_the_place_of_a_real_one_takes_its_ports_and_its_place_away_from_nobody(self) -> None:
        cache = Cache()
        cache.put_job(job_body(pods=["pod-uid"]))
        cache.put_pod(pod_body())
        assert cache.put_pod(pod_body(uid="forged", version="99", base=25000)) is None
        assert cache.pods_of(JOB) == []
        assert cache.ports.in_use(OTHER).placed["dtn-b"] == frozenset()
        assert cache.drop_pod(ObjectKey("lab", pod_body()["metadata"]["name"]), "forged") is None

    def test_a_pod_in_another_namespace_does_not_become_the_jobs_by_a_job_of_its_own_that_claims_the_same_uid(self) -> None:
        cache = Cache()
        cache.put_job(job_body(pods=["pod-uid"]))
        cache.put_pod(pod_body(namespace="elsewhere", uid="forged"))
        cache.put_job(job_body(namespace="elsewhere", uid="another", pods=["forged"]))
        assert cache.pods_of(JOB) == cache.pods_of(JobUid("elsewhere", "job-uid")) == []


class TestOwnPods:
    def test_a_pod_seen_before_the_answer_to_its_creation_becomes_the_jobs_with_the_answer(self) -> None:
        cache = Cache()
        cache.put_job(job_body())
        assert cache.put_pod(pod_body()) is None
        cache.put_created_pod(pod_body())
        assert [pod.uid for pod in cache.pods_of(JOB)] == ["pod-uid"]

    def test_a_status_that_is_behind_does_not_take_a_pod_away(self) -> None:
        cache = Cache()
        cache.put_created_pod(pod_body())
        cache.put_job(job_body(version="2"))
        assert cache.is_created("lab", "job-uid", "pod-uid")

    def test_after_a_restart_the_record_in_the_status_decides(self) -> None:
        cache = Cache()
        cache.put_pod(pod_body())
        cache.put_pod(pod_body(role="sender", uid="forged", node="dtn-a"))
        assert cache.pods_of(JOB) == []
        cache.put_job(job_body(pods=["pod-uid"]))
        assert [pod.uid for pod in cache.pods_of(JOB)] == ["pod-uid"]
        placed = cache.ports.in_use(OTHER).placed
        assert placed["dtn-b"] == {24000}
        assert placed.get("dtn-a", frozenset()) == frozenset()

    @pytest.mark.parametrize("pods", [None, "x", [1], [{"name": "n"}], {"uid": "pod-uid"}])
    def test_a_record_of_another_form_is_none(self, pods: object) -> None:
        cache = Cache()
        cache.put_pod(pod_body())
        cache.put_job(job_body() | {"status": {"pods": pods}})
        assert cache.pods_of(JOB) == []

    def test_pods_of_a_job_that_is_gone_hold_their_ports_until_they_are_gone(self) -> None:
        cache = Cache()
        cache.put_job(job_body(pods=["pod-uid"]))
        cache.put_pod(pod_body())
        cache.drop_job(KEY, "job-uid")
        cache.put_pod(pod_body(version="11"))
        assert cache.ports.in_use(OTHER).placed["dtn-b"] == {24000}
        cache.drop_pod(ObjectKey("lab", pod_body()["metadata"]["name"]), "pod-uid")
        assert not cache.is_created("lab", "job-uid", "pod-uid")
        assert cache.ports.in_use(OTHER).placed["dtn-b"] == frozenset()

    def test_nothing_is_kept_of_a_job_that_is_gone_with_its_pods(self) -> None:
        cache = Cache()
        cache.put_job(job_body(pods=["pod-uid"]))
        cache.put_job(job_body(uid="new", version="2"))
        assert not cache.is_created("lab", "job-uid", "pod-uid")
        cache.drop_job(KEY, "new")
        assert cache.pods_of(JobUid("lab", "new")) == []


class TestPodsOfAVersionWithoutRecords:
    """The status of a job that such a version began names its movers, and lists no UIDs."""

    STATUS: ClassVar[dict[str, Any]] = {
        "attempts": 1,
        "endpoints": {"destination": {"pod": child_name("job", "job-uid", "receiver", 1)}},
    }

    def test_its_movers_stay_its_own(self) -> None:
        cache = Cache()
        assert cache.put_pod(pod_body()) is None
        cache.put_job(job_body() | {"status": self.STATUS})
        assert [pod.uid for pod in cache.pods_of(JOB)] == ["pod-uid"]
        assert cache.ports.in_use(OTHER).placed["dtn-b"] == {24000}
        assert cache.put_pod(pod_body(version="11")) == KEY

    @pytest.mark.parametrize(
        ("what", "status", "pod"),
        [
            ("the status lists UIDs", {"pods": [{"uid": "another"}]}, pod_body()),
            ("another attempt is the latest", {"attempts": 2}, pod_body()),
            ("the status names another pod", {}, pod_body("sender")),
            ("the pod is in another namespace", {}, pod_body(namespace="elsewhere")),
        ],
    )
    def test_nothing_else_is(self, what: str, status: dict[str, Any], pod: dict[str, Any]) -> None:
        cache = Cache()
        cache.put_pod(pod)
        cache.put_job(job_body() | {"status": self.STATUS | status})
        assert cache.pods_of(JOB) == [], what

    @pytest.mark.parametrize("endpoints", [None, [], "x", {"destination": None}, {"destination": {"pod": ["x"]}}])
    def test_a_status_of_another_form_names_none(self, endpoints: object) -> None:
        cache = Cache()
        cache.put_pod(pod_body())
        cache.put_job(job_body() | {"status": self.STATUS | {"endpoints": endpoints}})
        assert cache.pods_of(JOB) == []
